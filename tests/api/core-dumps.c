/* SPDX-License-Identifier: MIT */
/*
 * Which addresses core dumps have: all that can be written, and none that are only reserved. That
 * costs the process no mapping.
 */
#include <err.h>
#include <errno.h>
#include <sheaf/kmalloc.h>
#include <sheaf/slab.h>
#include <sheaf/trim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "kit/check.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"

#define GUARD_INSTALL 102

enum {
	MANY = 3000,
	MiB = 1 << 20
};

/* A line of /proc/self/smaps with its flags. */
struct area {
	unsigned long begin, end;
	char rights[5];
	bool named, left_out;
	char flags[128]; /* without that one */
};

static bool no_light_guards;

int madvise(void *address, size_t size, int advice)
{
	if (advice == GUARD_INSTALL && no_light_guards) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_madvise, address, size, advice);
}

static struct area areas[4 * MANY];
static unsigned int nr_areas;

static void set_flags(struct area *area, const char *flags)
{
	char *out = strstr(strcpy(area->flags, flags), " dd");

	area->left_out = out != NULL;
	if (out)
		memmove(out, out + 3, strlen(out + 3) + 1);
}

/* False if this system does not list flags. */
static bool read_areas(void)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	struct area *now = NULL;
	char line[512], name[8];
	bool flags = false;

	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		struct area next = {.named = false};
		int n = sscanf(line, "%lx-%lx %4s %*s %*s %*s %7s", &next.begin, &next.end,
			       next.rights, name);

		if (n >= 3) {
			now = now ? now + 1 : areas;
			CHECK(now < areas + sizeof(areas) / sizeof(areas[0]));
			*now = next;
			now->named = n == 4;
		} else if (!strncmp(line, "VmFlags:", 8)) {
			flags = true;
			set_flags(now, line + 8);
		}
	}
	fclose(file);
	nr_areas = now ? (unsigned int)(now + 1 - areas) : 0;
	return flags;
}

static bool was_there(const struct area *before, unsigned int n, const struct area *area)
{
	for (unsigned int i = 0; i < n; i++)
		if (area->begin < before[i].end && before[i].begin < area->end)
			return true;
	return false;
}

/* Areas that this system has given to the library since then. */
static void check_areas(const struct area *before, unsigned int n)
{
	unsigned int out = 0;

	for (const struct area *area = areas; area < areas + nr_areas; area++) {
		const struct area *next = area + 1;

		if (area->named || was_there(before, n, area))
			continue;
		out += area->left_out;
		/* Without the right to write, it is only reserved, or closed. */
		if ((area->rights[1] == 'w') == area->left_out)
			errx(1, "%lx-%lx %s is %s", area->begin, area->end, area->rights,
			     area->left_out ? "left out" : "not left out");
		/* No mapping exists for this alone. */
		if (next < areas + nr_areas && next->begin == area->end && !next->named &&
		    !was_there(before, n, next) && !strcmp(next->rights, area->rights) &&
		    !strcmp(next->flags, area->flags))
			CHECK(area->left_out == next->left_out);
	}
	CHECK(out >= 2);
}

static void *objects[MANY];

static void use(struct kmem_cache *s, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		CHECK(objects[i]);
		*(char *)objects[i] = 1;
	}
	/* Every second object first: some stay accessible between inaccessible ones. */
	for (unsigned int i = 0; i < n; i += 2)
		kmem_cache_free(s, objects[i]);
}

static void give_rest(struct kmem_cache *s, unsigned int n)
{
	for (unsigned int i = 1; i < n; i += 2)
		kmem_cache_free(s, objects[i]);
}

static void use_all(void)
{
	static struct area before[sizeof(areas) / sizeof(areas[0])];
	struct kmem_cache *s;
	unsigned int n;
	char *block;

	read_areas();
	memcpy(before, areas, sizeof(before));
	n = nr_areas;
	s = kmem_cache_create("dumped", 1000, NULL, SLAB_NO_MERGE);
	CHECK(s);
	use(s, MANY);
	block = kvmalloc(5 * MiB, GFP_KERNEL);
	block[0] = block[5 * MiB - 1] = 1;
	block = kvrealloc(block, 50 * MiB, GFP_KERNEL);
	block[50 * MiB - 1] = 1;
	read_areas();
	check_areas(before, n);
	give_rest(s, MANY);
	kvfree(block);
	sheaf_trim(0);
	use(s, MANY / 2);
	read_areas();
	check_areas(before, n);
	give_rest(s, MANY / 2);
	kmem_cache_destroy(s);
}

static void only_what_can_be_written(void **state)
{
	(void)state;
	assert_int_equal(in_child(use_all), 0);
}

/* As before Linux 6.13: each open object is a mapping between closed pages. */
static void use_guard_pages(void)
{
	no_light_guards = true;
	CHECK(setenv("SHEAF_OPTIONS", "slab_debug=G", 1) == 0);
	use_all();
}

static void guard_pages_by_protection(void **state)
{
	(void)state;
	assert_int_equal(in_child(use_guard_pages), 0);
}

static int set_up(void **state)
{
	(void)state;
	if (read_areas())
		return 0;
	print_message("/proc/self/smaps lists no flags here\n");
	exit(SKIPPED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_can_be_written),
		cmocka_unit_test(guard_pages_by_protection),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
