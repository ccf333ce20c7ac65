/* SPDX-License-Identifier: MIT */
/* The library's calls that fail, for failing.c: limits and misuse. */
#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/limit.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <sheaf/trim.h>
#include <stdint.h>
#include <string.h>

#define SIZE 2048 /* two objects a slab, with slab_max_order=0 */
#define NAME 48

static struct kmem_cache *full;	   /* whose allocations fail */
static struct kmem_cache *partial; /* with partial slabs */
static struct kmem_cache **others;
static struct kmem_group *group;
static gfp_t gfp;
static char foreign[SIZE];

static bool wanted(const char *name)
{
	return !strcmp(options.only, "") || !strcmp(options.only, name);
}

static void *take(struct kmem_cache *s)
{
	void *object = kmem_cache_alloc(s, GFP_KERNEL);

	if (!object)
		fail("no memory");
	return object;
}

static struct kmem_cache *make(const char *name, slab_flags_t flags)
{
	struct kmem_cache *s = kmem_cache_create(name, SIZE, NULL, SLAB_NO_MERGE | flags);

	if (!s)
		fail("no memory");
	return s;
}

/* Each has one object in use. */
static void make_others(slab_flags_t flags)
{
	char name[NAME];

	others = malloc(options.caches * sizeof(*others));
	for (size_t i = 0; i < options.caches; i++) {
		snprintf(name, sizeof(name), "other-%zu", i);
		others[i] = make(name, flags);
		take(others[i]);
	}
}

/* Every second object of each slab stays in use. */
static void make_partial(struct kmem_cache *s)
{
	size_t n = 2 * options.slabs;
	void **objects = malloc(n * sizeof(*objects));

	for (size_t i = 0; objects && i < n; i++)
		objects[i] = take(s);
	for (size_t i = 0; i < n; i++)
		if ((uintptr_t)objects[i] & SIZE)
			kmem_cache_free(s, objects[i]);
	kmem_cache_shrink(s);
	free(objects);
}

/* --- limits ----------------------------------------------------------------------------------- */

static void *take_charged(void)
{
	return kmem_cache_alloc_charged(full, gfp, group);
}

static void *take_full(void)
{
	return kmem_cache_alloc(full, gfp);
}

static void *take_large(void)
{
	return kvmalloc(LARGE, gfp);
}

static void *(*taking)(void);

static void fails(void)
{
	if (taking())
		fail("an allocation did not fail");
}

/* An object of another cache is free again. */
static void free_another(void)
{
	kmem_cache_free(partial, take(partial));
}

static void limit_cache(bool on)
{
	kmem_cache_set_limit(full, on ? 4096 : 0);
}

static void limit_group(bool on)
{
	struct kmem_group_args args = {.hard_limit = on ? 4096 : 0};

	kmem_group_set_limits(group, &args);
}

static void limit_process(bool on)
{
	struct sheaf_stats now;

	sheaf_trim(0);
	sheaf_stats(&now);
	sheaf_set_limits(0, on ? now.held_bytes : 0);
}

static void limit_pages(bool on)
{
	refuse(RLIMIT_DATA, on);
}

static void limit_addresses(bool on)
{
	refuse(RLIMIT_AS, on);
}

static const struct {
	const char *name;
	void (*limit)(bool on);
	void *(*take)(void);
} limits[] = {
	{"cache", limit_cache, take_full},	    {"group", limit_group, take_charged},
	{"process", limit_process, take_full},	    {"pages", limit_pages, take_full},
	{"addresses", limit_addresses, take_large},
};

static const struct {
	const char *name;
	gfp_t gfp;
	void (*before)(void);
} ways[] = {
	{"GFP_NOWAIT", GFP_NOWAIT, NULL},
	{"GFP_KERNEL", GFP_KERNEL, NULL},
	{"after", GFP_KERNEL, free_another},
};

static void measure_limit(unsigned int i)
{
	char name[NAME];

	gfp = GFP_KERNEL;
	taking = limits[i].take;
	free_another();
	limits[i].limit(true);
	for (int failed = 0; failed < 3;)
		failed = taking() ? 0 : failed + 1;
	for (unsigned int way = 0; way < sizeof(ways) / sizeof(ways[0]); way++) {
		gfp = ways[way].gfp;
		snprintf(name, sizeof(name), "%s-%s", limits[i].name, ways[way].name);
		measure(name, ways[way].before, fails, false);
	}
	limits[i].limit(false);
}

static void measure_limits(void)
{
	full = make("full", SLAB_ACCOUNT);
	group = kmem_group_create("full", NULL, NULL);
	for (unsigned int i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (wanted(limits[i].name))
			measure_limit(i);
}

/* --- misuse ----------------------------------------------------------------------------------- */

static struct kmem_cache *gone;
static char *used, *freed, *block;
static size_t next_other;

static void free_foreign(void)
{
	kmem_cache_free(partial, foreign);
}

static void kfree_foreign(void)
{
	kfree(foreign);
}

static void free_interior(void)
{
	kmem_cache_free(partial, used + 8);
}

static void free_twice(void)
{
	kmem_cache_free(partial, freed);
}

static void free_wrong_cache(void)
{
	kmem_cache_free(others[0], used);
}

static void free_large_interior(void)
{
	kfree(block + 64);
}

static void free_to_null(void)
{
	kmem_cache_free(NULL, used);
}

static void free_to_destroyed(void)
{
	kmem_cache_free(gone, used);
}

/* To one cache after the other, beginning with the last: each pair of a kind and a cache counts. */
static void free_elsewhere(void)
{
	kmem_cache_free(others[options.caches - 1 - next_other++ % options.caches], foreign);
}

static const struct {
	const char *name;
	void (*call)(void);
} misuses[] = {
	{"foreign", free_foreign},
	{"kfree-foreign", kfree_foreign},
	{"interior", free_interior},
	{"large-interior", free_large_interior},
	{"double", free_twice},
	{"wrong-cache", free_wrong_cache},
	{"null", free_to_null},
	{"destroyed", free_to_destroyed},
	{"foreign-elsewhere", free_elsewhere},
};
#define MISUSES (sizeof(misuses) / sizeof(misuses[0]))

static size_t reports;

static void ignore(void *data, const char *text, size_t length)
{
	(void)data, (void)text, (void)length;
	reports++;
}

static void measure_misuses(void)
{
	char name[NAME];

	used = take(partial);
	freed = take(partial);
	block = kmalloc(LARGE, GFP_KERNEL);
	gone = make("gone", SLAB_NO_SHEAVES);
	kmem_cache_destroy(gone);
	kmem_cache_free(partial, freed);
	reports = 0;
	for (unsigned int i = 0; i < MISUSES; i++) {
		snprintf(name, sizeof(name), "%s-reported", misuses[i].name);
		if (wanted(misuses[i].name))
			measure(name, NULL, misuses[i].call, true);
	}
	if (*options.only && !reports)
		fail("a free was not reported");
	for (size_t i = 0; i < FEW * options.caches; i++)
		kmem_cache_free(others[i % options.caches], foreign);
	for (unsigned int i = 0; i < MISUSES; i++)
		if (wanted(misuses[i].name))
			measure(misuses[i].name, NULL, misuses[i].call, false);
}

static void run(void)
{
	slab_flags_t flags = options.misuse && !options.sheaves ? SLAB_NO_SHEAVES : 0;

	sheaf_set_report(ignore, NULL, NULL);
	make_others(flags);
	partial = make("partial", flags);
	make_partial(partial);
	if (options.misuse)
		measure_misuses();
	else
		measure_limits();
}
