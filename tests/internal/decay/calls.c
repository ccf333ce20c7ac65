/* SPDX-License-Identifier: MIT */
#include "internal/decay/calls.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kit/clock.h"

#define DONTNEED_LOCKED 24
#define GUARD_INSTALL	102

unsigned int madvise_ms;
void (*meanwhile)(void);
const char *locked;
size_t locked_bytes;
bool old_system;

int madvise(void *address, size_t size, int advice)
{
	bool is_locked = (char *)address < locked + locked_bytes && locked < (char *)address + size;

	clock_pass_ms(madvise_ms);
	if (((advice == MADV_DONTNEED || advice == GUARD_INSTALL) && is_locked) ||
	    (advice == DONTNEED_LOCKED && old_system)) {
		errno = EINVAL;
		return -1;
	}
	/* The system may be an old one. */
	if (advice == DONTNEED_LOCKED)
		advice = MADV_DONTNEED;
	return (int)syscall(SYS_madvise, address, size, advice);
}

int munmap(void *address, size_t size)
{
	/* Several threads may unmap blocks. */
	void (*other)(void) = __atomic_exchange_n(&meanwhile, NULL, __ATOMIC_RELAXED);

	if (other)
		other();
	return (int)syscall(SYS_munmap, address, size);
}
