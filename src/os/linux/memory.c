/* SPDX-License-Identifier: MIT */
/* Memory from mmap(). */
#include "os/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "os/atomic.h"
#include "os/linux/linux.h"
#include "os/report/report.h"
#include "os/should_fail.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* newer than some C libraries */
#endif
#define EMULATED_LIMIT ((size_t)32 << 30) /* they need a second for this much, and use less */

static uint32_t discard_refused; /* reported */

void *os_map_anywhere(size_t size, bool usable)
{
	OS_KEEP_ERRNO;
	void *at =
		os_may_fail(ENOMEM, mmap, NULL, size, usable ? PROT_READ | PROT_WRITE : PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	/* After a success, what was refused before is no reason. */
	map_refused(at == MAP_FAILED ? size : 0, usable);
	if (at == MAP_FAILED)
		return NULL;
	if (!usable)
		os_may_fail(ENOMEM, madvise, at, size, MADV_DONTDUMP);
	return at;
}

void *os_reserve(size_t size)
{
	OS_KEEP_ERRNO;
	char *address;

	size = os_round_up(size);
	address = os_map_anywhere(size + OS_HUGE, false);

	if (address) {
		size_t before = -(uintptr_t)address & (OS_HUGE - 1);

		if (before)
			os_may_fail(ENOMEM, munmap, address, before);
		os_may_fail(ENOMEM, munmap, address + before + size, OS_HUGE - before);
		address += before;
	}
	return address;
}

/* Emulators and valgrind keep a table of every reserved page: a terabyte costs them half a minute
 * and gigabytes of memory. The kernel's vDSO is in every process, but not under these. */
size_t os_addresses(void)
{
	return os.backend == OS_BACKEND_TRYLOCK && !getauxval(AT_SYSINFO_EHDR) ? EMULATED_LIMIT
									       : SIZE_MAX;
}

size_t os_address_limit(void)
{
	OS_KEEP_ERRNO;
	struct rlimit limit;
	size_t bytes = os_addresses();

	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < bytes)
		bytes = (size_t)limit.rlim_cur;
	return bytes;
}

bool os_memory_refresh(void)
{
	OS_KEEP_ERRNO;
	const char *groups = cgroup_list();
	size_t granted = cgroup_memory_of(CGROUP_ROOT, groups),
	       cpus = cgroup_cpus_of(CGROUP_ROOT, groups);
	struct sysinfo info;
	bool known = sysinfo(&info) == 0, changed;
	size_t all = known ? (size_t)info.totalram * info.mem_unit : SIZE_MAX;

	os_store_relaxed(&os.quota, cpus < OS_MAX_ROWS ? (uint32_t)cpus : 0);
	all = granted < all ? granted : all;
	changed = all != os_load_relaxed(&os.memory);
	os_store_relaxed(&os.memory, all);
	return changed;
}

void os_unreserve(void *address, size_t size)
{
	OS_KEEP_ERRNO;

	os_may_fail(ENOMEM, munmap, address, size);
}

bool os_allow_reads(void *address, size_t size)
{
	OS_KEEP_ERRNO;
	bool done = os_may_fail(ENOMEM, mprotect, address, size, PROT_READ) == 0;

	if (!done)
		map_refused(size, false);
	return done;
}

bool os_commit(void *address, size_t size)
{
	OS_KEEP_ERRNO;
	uintptr_t begin = os_round_down((uintptr_t)address);
	size_t whole = (uintptr_t)address + size - begin;
	bool done =
		os_may_fail(ENOMEM, mprotect, (void *)begin, whole, PROT_READ | PROT_WRITE) == 0;

	if (done)
		os_may_fail(ENOMEM, madvise, (void *)begin, whole, MADV_DODUMP);
	else
		map_refused(whole, true);
	return done;
}

bool os_uncommit(void *address, size_t size)
{
	OS_KEEP_ERRNO;
	bool done = os_may_fail(ENOMEM, mprotect, address, size, PROT_NONE) == 0;

	if (done) {
		os_may_fail(ENOMEM, madvise, address, size, MADV_DONTDUMP);
		os_discard(address, size, true);
	}
	return done;
}

bool os_move(void *from, size_t old, void *to, size_t size)
{
	OS_KEEP_ERRNO;
	bool moved = os_may_fail(ENOMEM, mremap, from, old, size, MREMAP_MAYMOVE | MREMAP_FIXED,
				 to) == to;

	/* A sandbox refuses the call before it does anything. */
	if (!moved && (errno == EPERM || errno == ENOSYS))
		os_unreserve(to, size);
	return moved;
}

/* Locked memory is not all that gives EINVAL: a sandbox may do so. */
static void report_refused(int error)
{
	os_report_once_later(
		&discard_refused,
		error == EINVAL && os_locks_memory()
			? "the system does not take back locked memory (%s; Linux 5.18 "
			  "does): freed memory stays resident and held. Unlock it "
			  "(munlockall) before sheaf_trim()"
			: "the system does not take back memory (madvise: %s): freed "
			  "memory stays resident and held",
		strerror(error));
}

bool os_discard(void *address, size_t size, bool locked)
{
	OS_KEEP_ERRNO;
	uintptr_t begin = os_round_up((uintptr_t)address);
	uintptr_t end = os_round_down((uintptr_t)address + size);
	bool done = begin >= end ||
		    os_may_fail(EINVAL, madvise, (void *)begin, end - begin, MADV_DONTNEED) == 0;

	/* It is locked, as the arguments are right. */
	if (!done && errno == EINVAL && locked)
		done = os_may_fail(EINVAL, madvise, (void *)begin, end - begin,
				   MADV_DONTNEED_LOCKED) == 0;
	if (!done && (errno != EINVAL || locked))
		report_refused(errno);
	return done;
}

bool os_hide(void *address, size_t size)
{
	OS_KEEP_ERRNO;
	bool done = os_may_fail(ENOMEM, madvise, address, size, MADV_DONTDUMP) == 0 &&
		    os_may_fail(ENOMEM, mlock, address, size) == 0;

	/* If there was not enough memory, a part may be locked. */
	if (!done)
		os_unhide(address, size);
	return done;
}

void os_unhide(void *address, size_t size)
{
	OS_KEEP_ERRNO;

	munlock(address, size);
	os_may_fail(ENOMEM, madvise, address, size, MADV_DODUMP);
}

void os_advise_huge(void *address, size_t size, bool huge)
{
	OS_KEEP_ERRNO;

	os_may_fail(EINVAL, madvise, address, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}
