/* SPDX-License-Identifier: MIT */
/* For tests of sheaves, which debug caches do not have, and none with slub_tiny. */
#ifndef SHEAF_TESTS_SHEAVES_H
#define SHEAF_TESTS_SHEAVES_H

#include "kit/unit.h"
#include "os/machine.h"
#include "os/options.h"
#include "os/tools.h"

/* Skip this test if the options leave caches no sheaves. */
static inline void needs_sheaves(void)
{
	if (*os_options.slab_debug || os_options.tiny)
		skip();
}

/* Also skip this test in hardened caches: their retired objects are in no rcu_free sheaf. */
static inline void needs_rcu_sheaves(void)
{
	if (os.watched && !(os.tools & TOOL_TSAN))
		skip();
	needs_sheaves();
}

#endif
