/* SPDX-License-Identifier: MIT */
/*
 * The calls of <malloc.h> that say how much memory there is, and that change something.
 *
 * In struct mallinfo2, hblkhd is what mappings in use hold, arena all else that libsheaf holds,
 * uordblks what is in use, a slab and the used part of the boot heap as a whole, and fordblks what
 * is free, also in freed mappings. No call walks over blocks.
 */
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include <sheaf/trim.h>

#include "boot.h"
#include "entry.h"

/* False: there is nothing, or a lock that this thread may hold is needed (MALLOC-M5). */
static bool enter(void)
{
	if (os_load_acquire(&malloc_state) != MALLOC_OPEN || malloc_inside)
		return false;
	malloc_inside = true;
	return true;
}

MALLOC_PUBLIC int malloc_trim(size_t keep)
{
	bool some;

	if (!enter())
		return 0;
	some = sheaf_trim(keep) != 0;
	malloc_inside = false;
	return some;
}

MALLOC_PUBLIC struct mallinfo2 mallinfo2(void)
{
	struct mallinfo2 info = {0};
	struct page_usage now;

	info.arena = info.uordblks = boot_used();
	if (!enter())
		return info;
	now = page_usage();
	now.used += guard_held();
	info.hblkhd = map_bytes();
	malloc_inside = false;
	info.arena += now.used + now.dirty;
	info.uordblks += now.used + info.hblkhd;
	info.fordblks = info.keepcost = now.dirty;
	return info;
}

static int cut(size_t n)
{
	return n > INT32_MAX ? INT32_MAX : (int)n;
}

/* Numbers that do not fit are cut to the largest one. */
MALLOC_PUBLIC struct mallinfo mallinfo(void)
{
	struct mallinfo2 wide = mallinfo2();

	return (struct mallinfo){.arena = cut(wide.arena),
				 .hblkhd = cut(wide.hblkhd),
				 .uordblks = cut(wide.uordblks),
				 .fordblks = cut(wide.fordblks),
				 .keepcost = cut(wide.keepcost)};
}

MALLOC_PUBLIC void malloc_stats(void)
{
	struct mallinfo2 info = mallinfo2();

	dprintf(STDERR_FILENO,
		"libsheaf-malloc: %zu bytes in use, %zu of them in mappings; %zu free\n",
		info.uordblks, info.hblkhd, info.fordblks);
}

MALLOC_PUBLIC int malloc_info(int options, FILE *to)
{
	struct mallinfo2 info = mallinfo2();

	if (options) {
		errno = EINVAL;
		return -1;
	}
	return fprintf(to,
		       "<malloc version=\"sheaf-1\">\n"
		       "<total type=\"used\" size=\"%zu\"/>\n<total type=\"free\" size=\"%zu\"/>\n"
		       "<total type=\"mmap\" size=\"%zu\"/>\n"
		       "<system type=\"current\" size=\"%zu\"/>\n</malloc>\n",
		       info.uordblks, info.fordblks, info.hblkhd, info.arena + info.hblkhd) < 0
		       ? -1
		       : 0;
}

/* Settings of another allocator: accepted, without an effect. SHEAF_OPTIONS has this one's. */
MALLOC_PUBLIC int mallopt(int what, int value)
{
	(void)what, (void)value;
	return 1;
}
