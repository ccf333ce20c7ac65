/* SPDX-License-Identifier: MIT */
/*
 * See record.h: which system calls concern an address space, and the line that each writes.
 *
 * shmat and shmdt are written as the equivalent mmap and munmap. Their arguments have no length, so
 * it is looked up.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "record.h"

#define HUGE_DEFAULT 21 /* log2 of the usual huge page */

static const struct {
	long number;
	enum kind kind;
} concern[] = {
	{SYS_mmap, MMAP},	  {SYS_munmap, MUNMAP},
	{SYS_mprotect, MPROTECT}, {SYS_pkey_mprotect, MPROTECT},
	{SYS_brk, BRK},		  {SYS_mremap, MREMAP},
	{SYS_madvise, DONTNEED},  {SYS_shmat, MMAP},
	{SYS_shmdt, MUNMAP},	  {SYS_clone, FORK},
	{SYS_clone3, FORK},
#ifdef SYS_fork
	{SYS_fork, FORK},	  {SYS_vfork, FORK},
#endif
};

static enum kind kind_of(long number)
{
	for (size_t i = 0; i < sizeof(concern) / sizeof(*concern); i++)
		if (concern[i].number == number)
			return concern[i].kind;
	return NONE;
}

static uint64_t pages_of(uint64_t bytes)
{
	return bytes / page_size() + (bytes % page_size() != 0);
}

/* The flags of a clone; those of clone3 are the first word of a structure in the task's memory. */
static uint64_t clone_flags(pid_t tid, long number, const uint64_t *arguments)
{
	uint64_t flags = 0;

	if (number == SYS_clone)
		return arguments[0];
	if (number == SYS_clone3) {
		struct iovec here = {&flags, sizeof(flags)};
		struct iovec there = {(void *)(uintptr_t)arguments[0], sizeof(flags)};

		if (process_vm_readv(tid, &here, 1, &there, 1, 0) < 0)
			warn("cannot read the flags of clone3: %s", strerror(errno));
		return flags;
	}
#ifdef SYS_vfork
	if (number == SYS_vfork)
		return CLONE_VM | CLONE_VFORK;
#endif
	return 0;
}

void call_enter(struct call *call, pid_t tid, long number, const uint64_t arguments[6])
{
	struct range range;

	*call = (struct call){.kind = kind_of(number), .number = number, .name = "-"};
	memcpy(call->arguments, arguments, sizeof(call->arguments));
	if (number == SYS_mmap && !(arguments[3] & MAP_ANONYMOUS))
		link_name(call->name, "/proc/%d/fd/%d", (int)tid, (int)arguments[4]);
	else if (number == SYS_madvise && arguments[2] != MADV_DONTNEED)
		call->kind = NONE;
	else if (number == SYS_shmdt && find_range(tid, arguments[0] / page_size(), &range))
		call->pages = range.pages;
	else if (call->kind == FORK) {
		call->flags = clone_flags(tid, number, arguments);
		if (call->flags & CLONE_VM)
			call->kind = THREAD;
	}
}

/* " = " and the result of a call: a page, or an error's name. */
static const char *outcome(char text[32], int64_t result)
{
	static const struct {
		int error;
		const char *name;
	} names[] = {{ENOMEM, "ENOMEM"}, {EINVAL, "EINVAL"}, {EACCES, "EACCES"},
		     {EPERM, "EPERM"},	 {EEXIST, "EEXIST"}, {EBADF, "EBADF"},
		     {ENODEV, "ENODEV"}, {EAGAIN, "EAGAIN"}, {EFAULT, "EFAULT"}};

	if (result >= 0) {
		snprintf(text, 32, "%" PRIx64, (uint64_t)result / page_size());
		return text;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].error == -result)
			return names[i].name;
	snprintf(text, 32, "E%" PRId64, -result);
	return text;
}

static void permissions(char text[5], uint64_t protection)
{
	strcpy(text, "---");
	if (protection & PROT_READ)
		text[0] = 'r';
	if (protection & PROT_WRITE)
		text[1] = 'w';
	if (protection & PROT_EXEC)
		text[2] = 'x';
}

static uint64_t mmap_pages(uint64_t bytes, uint64_t flags)
{
	uint64_t shift = flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK, unit;

	if (!(flags & MAP_HUGETLB))
		return pages_of(bytes);
	unit = UINT64_C(1) << (shift ? shift : HUGE_DEFAULT);
	return (bytes + unit - 1) / unit * (unit / page_size());
}

static void put_mmap(const struct call *call, unsigned int space, const char *result)
{
	uint64_t flags = call->arguments[3];
	char text[5];

	permissions(text, call->arguments[2]);
	text[3] = flags & MAP_SHARED ? 's' : 'p'; /* MAP_SHARED_VALIDATE has this bit, too */
	text[4] = '\0';
	put("%u mmap %" PRIx64 "+%" PRIx64 " %s %s %s@%" PRIx64 " = %s", space,
	    call->arguments[0] / page_size(), mmap_pages(call->arguments[1], flags), text,
	    flags & MAP_FIXED_NOREPLACE ? "noreplace"
	    : flags & MAP_FIXED		? "fixed"
	    : flags & MAP_GROWSDOWN	? "growsdown"
					: "any",
	    call->name, flags & MAP_ANONYMOUS ? 0 : call->arguments[5] / page_size(), result);
}

static void put_mremap(const struct call *call, unsigned int space, const char *result)
{
	uint64_t flags = call->arguments[3];

	put("%u mremap %" PRIx64 "+%" PRIx64 " %" PRIx64 " %s = %s", space,
	    call->arguments[0] / page_size(), pages_of(call->arguments[1]),
	    pages_of(call->arguments[2]),
	    flags & MREMAP_DONTUNMAP ? "keep"
	    : flags & MREMAP_FIXED   ? "fixed"
	    : flags & MREMAP_MAYMOVE ? "move"
				     : "stay",
	    result);
}

/* What shmat mapped, according to the kernel's list. */
static void put_shmat(pid_t tid, unsigned int space, int64_t address)
{
	struct range range;

	if (address >= 0 && find_range(tid, (uint64_t)address / page_size(), &range))
		put("%u mmap 0+%" PRIx64 " %s any %s@0 = %" PRIx64, space, range.pages,
		    range.permissions, range.name, range.first);
}

/* Lines of calls without a result end with "ok" or an error's name. */
void call_leave(const struct call *call, pid_t tid, unsigned int space, int64_t result)
{
	uint64_t first = call->arguments[0] / page_size(), pages = pages_of(call->arguments[1]);
	char said[32], text[5];
	const char *given = outcome(said, result), *done = result < 0 ? given : "ok";

	switch (call->kind) {
	case MMAP:
		if (call->number == SYS_shmat)
			put_shmat(tid, space, result);
		else
			put_mmap(call, space, given);
		break;
	case MUNMAP:
		put("%u munmap %" PRIx64 "+%" PRIx64 " = %s", space, first,
		    call->number == SYS_shmdt ? call->pages : pages, done);
		break;
	case MPROTECT:
		permissions(text, call->arguments[2]);
		put("%u mprotect %" PRIx64 "+%" PRIx64 " %s = %s", space, first, pages, text, done);
		break;
	case BRK: /* the kernel rounds upwards here */
		put("%u brk %" PRIx64 " = %" PRIx64, space, pages_of(call->arguments[0]),
		    pages_of((uint64_t)result));
		break;
	case MREMAP:
		put_mremap(call, space, given);
		break;
	case DONTNEED:
		put("%u dontneed %" PRIx64 "+%" PRIx64 " = %s", space, first, pages, done);
		break;
	default:
		return;
	}
	count_call(call->kind,
		   call->kind == BRK ? call->arguments[0] > (uint64_t)result : result < 0);
	count_ranges(tid, space);
}
