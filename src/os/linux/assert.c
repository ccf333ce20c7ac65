/* SPDX-License-Identifier: MIT */
/* See os/assert.h. */
#include "os/assert.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SHEAF_DEBUG
void os_assert_failed(const char *what)
{
	if (write(STDERR_FILENO, what, strlen(what)) < 0)
		abort();
	abort();
}
#endif
