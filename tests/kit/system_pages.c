/* SPDX-License-Identifier: MIT */
/*
 * Linked to a test, simulates a system with pages of SYSTEM_PAGES bytes: unaligned addresses are
 * refused, sizes are rounded up, and sysconf() and getpagesize() return this size. The real pages
 * of the machine are smaller. So a discard of part of a larger page loses the same data here as on
 * such a system.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

long __sysconf(int name);

static size_t page_size(void)
{
	static size_t size;

	if (!size)
		size = strtoul(getenv("SYSTEM_PAGES") ? getenv("SYSTEM_PAGES") : "65536", NULL, 0);
	return size;
}

static size_t round_up(size_t size)
{
	return (size + page_size() - 1) & ~(page_size() - 1);
}

/* Returns true, with errno, if the system would refuse this address or offset. */
static int refused(uintptr_t at)
{
	if (at & (page_size() - 1))
		errno = EINVAL;
	return (at & (page_size() - 1)) != 0;
}

int getpagesize(void)
{
	return (int)page_size();
}

long sysconf(int name)
{
	return name == _SC_PAGESIZE ? (long)page_size() : __sysconf(name);
}

static void *call_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
	return (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}

/* The name of mmap() where off_t has 64 bits. */
void *mmap64(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
	size_t whole = round_up(size), before;
	char *place;

	if (refused((uintptr_t)offset) || (flags & MAP_FIXED && refused((uintptr_t)at)))
		return MAP_FAILED;
	if (flags & MAP_FIXED)
		return call_mmap(at, whole, protection, flags, file, offset);
	/* Map more than that anywhere, and unmap the unaligned ends. */
	place = call_mmap(NULL, whole + page_size(), PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (place == MAP_FAILED)
		return place;
	before = -(uintptr_t)place & (page_size() - 1);
	if (before)
		syscall(SYS_munmap, place, before);
	syscall(SYS_munmap, place + before + whole, page_size() - before);
	at = call_mmap(place + before, whole, protection, flags | MAP_FIXED, file, offset);
	if (at == MAP_FAILED)
		syscall(SYS_munmap, place + before, whole);
	return at;
}

int munmap(void *at, size_t size)
{
	return refused((uintptr_t)at) ? -1 : (int)syscall(SYS_munmap, at, round_up(size));
}

int mprotect(void *at, size_t size, int protection)
{
	if (refused((uintptr_t)at))
		return -1;
	return (int)syscall(SYS_mprotect, at, round_up(size), protection);
}

int madvise(void *at, size_t size, int advice)
{
	return refused((uintptr_t)at) ? -1 : (int)syscall(SYS_madvise, at, round_up(size), advice);
}
