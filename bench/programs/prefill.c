/* SPDX-License-Identifier: MIT */
/*
 * The prefill benchmark: a piece of work that may need N objects and mostly uses few of them (K).
 *
 *   prefill   libsheaf's: a prefilled sheaf, K objects from it, the sheaf returned
 *   bulk      all N as an array, the unused ones returned as an array
 *   single    all N one by one, the unused ones returned one by one
 *
 * In every way, the K objects are freed one by one at the end of the work. Prints a line "from
 * LIBRARY" if the allocator is a preloaded one, and ns of CPU time of a piece of work for each
 * iteration but the first.
 */
#include <stdio.h>
#include <stdlib.h>

#include "allocators/allocator.h"
#include "common/common.h"

#define NEEDED_MAX 1024

enum way {
	PREFILL,
	BULK,
	SINGLE
};

static const char *const ways[] = {"prefill", "bulk", "single", NULL};

struct options {
	size_t needed, used, works, iterations, size;
	const char *variant;
	enum way way;
};

static void *context;
static void *objects[NEEDED_MAX];

static _Noreturn void fail(const char *why)
{
	fprintf(stderr, "prefill: %s\n", why);
	exit(1);
}

static void free_singly(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		bench_free(context, objects[i]);
		OTHER_THINGS;
	}
}

static void work_bulk(size_t needed, size_t used)
{
	if (!bench_alloc_bulk(context, objects, (unsigned int)needed))
		bench_out_of_memory();
	if (used < needed)
		bench_free_bulk(context, objects + used, (unsigned int)(needed - used));
	free_singly(0, used);
}

static void work_single(size_t needed, size_t used)
{
	for (size_t i = 0; i < needed; i++) {
		objects[i] = bench_alloc(context);
		OTHER_THINGS;
		if (!objects[i])
			bench_out_of_memory();
	}
	free_singly(used, needed);
	free_singly(0, used);
}

#ifdef BENCH_PREFILL
static void work_prefill(size_t needed, size_t used)
{
	BENCH_PREFILL *sheaf = bench_prefill(context, (unsigned int)needed);

	if (!sheaf)
		bench_out_of_memory();
	for (size_t i = 0; i < used; i++) {
		objects[i] = bench_alloc_from(context, sheaf);
		OTHER_THINGS;
	}
	bench_return(context, sheaf);
	free_singly(0, used);
}
#else
static void work_prefill(size_t needed, size_t used)
{
	(void)needed;
	(void)used;
	fail("this allocator has no prefilled sheaves");
}
#endif

static void run(const void *of)
{
	const struct options *options = of;
	void (*const work)(size_t, size_t) = options->way == PREFILL ? work_prefill
					     : options->way == BULK  ? work_bulk
								     : work_single;

	for (size_t i = 0; i < options->works; i++)
		work(options->needed, options->used);
}

int main(int argc, char **argv)
{
	struct options o = {.needed = 32,
			    .used = 0,
			    .works = 20000,
			    .iterations = 11,
			    .size = 64,
			    .variant = ""};
	const char *way = "bulk";
	const struct bench_option table[] = {
		{"needed", &o.needed, NEEDED_MAX, NULL, NULL},
		{"used", &o.used, NEEDED_MAX, NULL, NULL},
		{"works", &o.works, SIZE_MAX, NULL, NULL},
		{"iterations", &o.iterations, SIZE_MAX, NULL, NULL},
		{"size", &o.size, 1 << 20, NULL, NULL},
		{"way", NULL, 0, &way, NULL},
		{"variant", NULL, 0, &o.variant, NULL},
		{NULL, NULL, 0, NULL, NULL},
	};

	bench_parse(argc, argv, table,
		    "way: prefill, bulk or single; none is used without --used\n"
		    "Measure one allocator; `sheaf bench prefill` runs this.\n");
	o.way = (enum way)bench_choice(argv[0], way, ways);
	if (o.used > o.needed)
		fail("more objects used than needed");
	bench_pin(bench_cpu(0));
	context = bench_begin(o.size, NEEDED_MAX, 0, o.variant);
	bench_iterate(o.iterations, bench_thread_time, run, &o, o.works);
	return 0;
}
