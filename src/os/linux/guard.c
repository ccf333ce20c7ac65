/* SPDX-License-Identifier: MIT */
/* Closed pages by light guards, or by protection; see guard.h. */
#include "os/guard.h"

#include <sys/mman.h>

#include "os/assert.h"
#include "os/memory.h"
#include "os/should_fail.h"

/* Newer than some C libraries. */
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE  103
#endif

/* GUARD-P1 */
static __attribute__((unused)) bool is_whole_pages(const void *address, size_t size)
{
	return size && ((uintptr_t)address | size) % os.page_size == 0;
}

enum os_guard os_guard_begin(void *address, size_t size)
{
	OS_KEEP_ERRNO;
	bool light = os_commit(address, size) &&
		     os_may_fail(EINVAL, madvise, address, size, MADV_GUARD_INSTALL) == 0;

	/* Locked memory was made resident by the first call. */
	if (!light)
		os_uncommit(address, size);
	return light ? OS_GUARD_LIGHT : OS_GUARD_PROTECTION;
}

bool os_guard_open(void *address, size_t size, enum os_guard guard)
{
	OS_KEEP_ERRNO;

	os_assert(is_whole_pages(address, size)); /* GUARD-P1 */
	return guard == OS_GUARD_LIGHT
		       ? os_may_fail(ENOMEM, madvise, address, size, MADV_GUARD_REMOVE) == 0
		       : os_commit(address, size);
}

bool os_guard_close(void *address, size_t size, enum os_guard guard)
{
	OS_KEEP_ERRNO;
	bool light, done;

	os_assert(is_whole_pages(address, size)); /* GUARD-P1 */
	light = guard == OS_GUARD_LIGHT &&
		os_may_fail(EINVAL, madvise, address, size, MADV_GUARD_INSTALL) == 0;
	done = light || os_uncommit(address, size);

	return light || (done && guard == OS_GUARD_PROTECTION);
}
