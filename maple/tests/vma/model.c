/* SPDX-License-Identifier: MIT */
/*
 * The address space of bench/vma/space against an array of pages: random calls, forks and execs. In
 * every second run, one allocation is refused in half of the calls, and then every page must be
 * unchanged. The linker puts the calls below in place of those that allocate. SEED repeats a run,
 * STEPS makes it longer.
 */
#include <errno.h>
#include <inttypes.h>
#include <sheaf/stats.h>
#include <stdlib.h>
#include <string.h>

#include "../../bench/vma/space/internal.h"
#include "../../src/tree.h"
#include "kit/cache.h"
#include "kit/provider.h"
#include "kit/random.h"
#include "kit/refuse_nodes.h"

#define PAGES 300ul
#define FIRST 16ul /* the space begins at this page */

/* --- refused allocations ---------------------------------------------------------------------- */

struct vma *__real_vma_alloc(void);
int __real_vma_alloc_bulk(unsigned int n, void **vmas);
struct vma *__wrap_vma_alloc(void);
int __wrap_vma_alloc_bulk(unsigned int n, void **vmas);

struct vma *__wrap_vma_alloc(void)
{
	return refuse() ? NULL : __real_vma_alloc();
}

int __wrap_vma_alloc_bulk(unsigned int n, void **vmas)
{
	return refuse() ? -ENOMEM : __real_vma_alloc_bulk(n, vmas);
}

/* --- the model -------------------------------------------------------------------------------- */

struct page {
	bool mapped;
	unsigned long flags, file, page;
};

static struct page model[PAGES];
static unsigned long brk_page; /* the heap's end */
static struct space space;
static uint64_t seed, random_state;
static unsigned int step;
static bool split; /* a merge may have been refused */

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s: seed %" PRIu64 ", step %u\n", __FILE__,        \
				__LINE__, #condition, seed, step);                                 \
			space_print(&space, stderr);                                               \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static unsigned long below(unsigned long n)
{
	return (random_next(&random_state) >> 16) % n;
}

static unsigned long address_of(unsigned long page)
{
	return (FIRST + page) * SPACE_PAGE;
}

static void check_space(struct space *s)
{
	CHECK(space_validate(s, split) == 0);
	for (unsigned long p = 0; p < PAGES; p++) {
		const struct vma *vma = space_fault(s, address_of(p) + below(SPACE_PAGE));
		const struct page *m = &model[p];

		CHECK(m->mapped == (vma != NULL));
		if (!vma)
			continue;
		CHECK(vma->flags == m->flags && vma->file == m->file);
		CHECK(!m->file || vma->page + (address_of(p) - vma->start) / SPACE_PAGE == m->page);
	}
	CHECK(s->brk == address_of(brk_page) && s->brk_start == address_of(0));
}

static void model_map(unsigned long at, unsigned long n, const struct space_request *request)
{
	for (unsigned long i = 0; i < n; i++)
		model[at + i] = (struct page){true, request->flags, request->file,
					      request->file ? request->page + i : 0};
}

static bool is_free(unsigned long at, unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		if (at + i >= PAGES || model[at + i].mapped)
			return false;
	return true;
}

/* --- calls, each on both; returns the result of space_, or its result with enough memory ------ */

static long try_map(void)
{
	unsigned long at = below(PAGES), n = 1 + below(below(40) + 1), found = PAGES;
	struct space_request request = {.address = below(3) ? address_of(at) : 0,
					.length = n * SPACE_PAGE,
					.flags = below(16),
					.file = below(3),
					.page = below(2) ? at : below(4),
					.fixed = below(2)};
	long address;

	request.fixed &= request.address != 0;
	if (request.fixed)
		found = at + n <= PAGES ? at : PAGES;
	else if (request.address && is_free(at, n))
		found = at;
	else
		for (unsigned long p = 0; p < PAGES; p++)
			if (is_free(p, n))
				found = p;
	address = space_map(&space, &request);
	if (address < 0) {
		CHECK(address == -ENOMEM);
		return found == PAGES ? 0 : address;
	}
	CHECK(found < PAGES && (unsigned long)address == address_of(found));
	model_map(found, n, &request);
	return 0;
}

static long try_unmap(void)
{
	unsigned long at = below(PAGES), n = 1 + below(below(60) + 1);
	int error;

	if (at + n > PAGES)
		n = PAGES - at;
	error = space_unmap(&space, address_of(at), n * SPACE_PAGE);
	for (unsigned long i = 0; !error && i < n; i++)
		model[at + i].mapped = false;
	return error;
}

static long try_protect(void)
{
	unsigned long at = below(PAGES), n = 1 + below(below(60) + 1), flags = below(8);
	bool whole = true;
	int error;

	if (at + n > PAGES)
		n = PAGES - at;
	for (unsigned long i = 0; i < n; i++)
		whole &= model[at + i].mapped;
	error = space_protect(&space, address_of(at), n * SPACE_PAGE, flags);
	if (!whole) {
		CHECK(error == -ENOMEM);
		return 0;
	}
	for (unsigned long i = 0; !error && i < n; i++)
		model[at + i].flags = (model[at + i].flags & VMA_SHARED) | flags;
	return error;
}

static long try_brk(void)
{
	static const struct space_request heap = {.flags = VMA_READ | VMA_WRITE};
	unsigned long end = below(40);
	bool room = end <= brk_page || is_free(brk_page, end - brk_page);
	long result = space_brk(&space, address_of(end));

	if (result < 0) {
		CHECK(result == -ENOMEM);
		return room ? result : 0;
	}
	CHECK(room && (unsigned long)result == address_of(end));
	if (end > brk_page)
		model_map(brk_page, end - brk_page, &heap);
	for (unsigned long p = end; p < brk_page; p++)
		model[p].mapped = false;
	brk_page = end;
	return 0;
}

static long try_fork(void)
{
	struct space parent;
	int error = space_fork(&parent, &space);

	if (!error) {
		check_space(&parent);
		space_destroy(&parent);
	}
	return error;
}

/* Make the same mappings as a new image, from a list. */
static long try_exec(void)
{
	static struct space fresh;
	struct space_request image[PAGES];
	unsigned int n = 0;
	int error;

	for (unsigned long p = 0; p < PAGES; p++)
		if (model[p].mapped)
			image[n++] =
				(struct space_request){address_of(p), SPACE_PAGE,    model[p].flags,
						       model[p].file, model[p].page, true};
	error = space_exec(&fresh, &space, image, n);
	if (error)
		return error;
	CHECK(space.vmas == 0);
	space_set_brk(&fresh, address_of(0));
	fresh.brk = address_of(brk_page);
	check_space(&fresh);
	error = space_fork(&space, &fresh);
	CHECK(!error || refuse_in == 0);
	if (error) { /* no refusal here: the copy must succeed */
		CHECK(space_fork(&space, &fresh) == 0);
		error = 0;
	}
	space_destroy(&fresh);
	return error;
}

static long (*const tries[])(void) = {try_map,	   try_map,	try_map, try_unmap, try_unmap,
				      try_protect, try_protect, try_brk, try_fork,  try_exec};

static void run(unsigned int steps)
{
	space_init(&space, address_of(0), address_of(PAGES));
	memset(model, 0, sizeof(model));
	brk_page = 0;
	split = false;
	random_state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	for (step = 0; step < steps; step++) {
		unsigned long which = below(below(4) ? 8 : 10), before = refusals;
		long error;

		refuse_in = seed % 2 && below(2) ? (unsigned int)below(8) + 1 : 0;
		error = tries[which]();
		refuse_in = 0;
		CHECK(!error || (error == -ENOMEM && refusals > before));
		split |= refusals > before;
		check_space(&space);
	}
	space_destroy(&space);
}

int main(void)
{
	const char *text = getenv("SEED"), *length = getenv("STEPS");
	unsigned int steps = length ? (unsigned int)atoi(length) : 1000;

	provider_register();
	for (uint64_t i = 1; i <= 12; i++) {
		seed = text ? strtoull(text, NULL, 10) : i;
		run(steps);
	}
	CHECK(all_freed(vma_cache()));
	CHECK(all_freed(node_cache()));
	CHECK(refusals > 100);
	return 0;
}
