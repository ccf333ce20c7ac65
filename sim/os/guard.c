/* SPDX-License-Identifier: MIT */
/* Guard pages and their signals: a simulated machine has none, and refuses no access. */
#include "os/guard.h"

#include "os/memory.h"

enum os_guard os_guard_begin(void *address, size_t size)
{
	os_commit(address, size);
	return OS_GUARD_LIGHT;
}

bool os_guard_open(void *address, size_t size, enum os_guard guard)
{
	(void)address, (void)size, (void)guard;
	return true;
}

bool os_guard_close(void *address, size_t size, enum os_guard guard)
{
	(void)guard;
	os_discard(address, size, true);
	return true;
}

void os_fault_read(struct os_fault *fault, const void *address, const void *context)
{
	(void)context;
	*fault = (struct os_fault){.address = address};
}

void os_fault_watch(bool (*explain)(const void *address, const void *context))
{
	(void)explain;
}
