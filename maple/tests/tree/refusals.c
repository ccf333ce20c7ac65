/* SPDX-License-Identifier: MIT */
/*
 * Every refusal that libsheaf may meet below a tree, from its first use on: the n-th point fails
 * (SHEAF_OPTIONS=fail_nth=n), alone or with all that follow, n = 1, 2, ... up to the first run in
 * which nothing fails. Each run is a process of its own. A call returns 0 or -ENOMEM, and then has
 * changed nothing; an erase succeeds; errno is what it was; the same call succeeds when nothing is
 * refused; and no node is lost.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/tree.h"
#include "kit/cache.h"
#include "kit/provider.h"

enum {
	CELLS = 64, /* indices: two levels of nodes */
	GAP = 30,   /* four of them are erased, and allocated again */
	ODD = 4242  /* of errno */
};

#define ENTRY(i) ((void *)(uintptr_t)(4096 + 16 * (i)))

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "FAULT %s:%d: %s, in %s\n", __FILE__, __LINE__,            \
				#condition, step->name);                                           \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU),
			 copy = MTREE_INIT(copy, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
static void *model[CELLS];
static unsigned int filled;

/* --- the calls -------------------------------------------------------------------------------- */

static const struct act {
	const char *name;
	int (*call)(void);
	unsigned int first, last, entry; /* what it stores; entry 0: nothing there; last 0: none */
} * step;

static int fill(void)
{
	int error = 0;

	for (; !error && filled < CELLS; filled += !error) {
		error = mtree_store(&tree, filled, ENTRY(filled), GFP_KERNEL);
		if (!error)
			model[filled] = ENTRY(filled);
	}
	return error;
}

static int store_range(void)
{
	return mtree_store_range(&tree, step->first, step->last, ENTRY(step->entry), GFP_NOWAIT);
}

static int erase(void)
{
	CHECK(mtree_erase(&tree, step->first));
	return 0;
}

static int insert(void)
{
	return mtree_insert(&tree, step->first, ENTRY(step->entry), GFP_KERNEL);
}

static int insert_range(void)
{
	return mtree_insert_range(&tree, step->first, step->last, ENTRY(step->entry), GFP_KERNEL);
}

static int alloc_range(void)
{
	unsigned long at;

	return mtree_alloc_range(&tree, &at, ENTRY(step->entry), 1, 0, CELLS - 1, GFP_KERNEL);
}

static int alloc_rrange(void)
{
	unsigned long at;

	return mtree_alloc_rrange(&tree, &at, ENTRY(step->entry), 1, 0, CELLS - 1, GFP_KERNEL);
}

static int alloc_cyclic(void)
{
	unsigned long at, next = 1;

	return mtree_alloc_cyclic(&tree, &at, ENTRY(step->entry), 0, CELLS - 1, &next, GFP_KERNEL);
}

static int store_nomem(void)
{
	MA_STATE(mas, &tree, step->first, step->last);
	int error;

	mtree_lock(&tree);
	do
		mas_store(&mas, ENTRY(step->entry));
	while (mas_nomem(&mas, GFP_KERNEL));
	error = mas_error(&mas);
	mas_destroy(&mas);
	mtree_unlock(&tree);
	return error;
}

static int store_gfp(void)
{
	MA_STATE(mas, &tree, step->first, step->last);
	int error;

	mtree_lock(&tree);
	error = mas_store_gfp(&mas, ENTRY(step->entry), GFP_KERNEL);
	mtree_unlock(&tree);
	return error;
}

static int store_prealloc(void)
{
	MA_STATE(mas, &tree, step->first, step->last);
	int error;

	mtree_lock(&tree);
	error = mas_preallocate(&mas, ENTRY(step->entry), GFP_KERNEL);
	if (!error)
		mas_store_prealloc(&mas, ENTRY(step->entry));
	mtree_unlock(&tree);
	return error;
}

static int erase_state(void)
{
	MA_STATE(mas, &tree, step->first, step->first);
	void *entry;

	mtree_lock(&tree);
	entry = mas_erase(&mas);
	mtree_unlock(&tree);
	CHECK(entry && !mas_is_err(&mas));
	return 0;
}

static int duplicate(void)
{
	return mtree_dup(&tree, &copy, GFP_KERNEL);
}

static const struct act steps[] = {
	{"mtree_store", fill, 0, 0, 0},
	{"mtree_store_range", store_range, 5, 20, 101},
	{"mtree_erase", erase, GAP, GAP, 0},
	{"mtree_insert", insert, GAP, GAP, 102},
	{"mas_erase", erase_state, GAP, GAP, 0},
	{"mas_erase", erase_state, GAP + 1, GAP + 1, 0},
	{"mtree_erase", erase, GAP + 2, GAP + 2, 0},
	{"mtree_insert_range", insert_range, GAP, GAP + 2, 103},
	{"mtree_erase", erase, GAP, GAP + 2, 0},
	{"mtree_alloc_range", alloc_range, GAP, GAP, 104},
	{"mtree_alloc_rrange", alloc_rrange, GAP + 2, GAP + 2, 105},
	{"mtree_alloc_cyclic", alloc_cyclic, GAP + 1, GAP + 1, 106},
	{"mas_store, mas_nomem", store_nomem, 3, 50, 107},
	{"mas_store_gfp", store_gfp, 10, 20, 108},
	{"mas_preallocate", store_prealloc, 15, 40, 109},
	{"mtree_dup", duplicate, 0, 0, 0},
};

/* --- a run ------------------------------------------------------------------------------------ */

static void look_at(struct maple_tree *mt)
{
	CHECK(mt_validate(mt) == 0);
	for (unsigned int i = 0; i < CELLS; i++)
		CHECK(mtree_load(mt, i) == model[i]);
}

static int take_step(void)
{
	int error;

	errno = ODD;
	error = step->call();
	CHECK(errno == ODD);
	CHECK(!error || error == -ENOMEM);
	if (!error && step->last)
		for (unsigned int i = step->first; i <= step->last; i++)
			model[i] = step->entry ? ENTRY(step->entry) : NULL;
	look_at(&tree);
	return error;
}

static void make_all_calls(bool recovers)
{
	int error = 0;

	for (step = steps; !error && step < steps + sizeof(steps) / sizeof(*steps); step++) {
		error = take_step();
		if (error && recovers)
			CHECK(!(error = take_step()));
		if (!error && step->call == duplicate)
			look_at(&copy);
	}
	step = steps;
	mtree_destroy(&tree);
	mtree_destroy(&copy);
	if (recovers)
		CHECK(all_freed(node_cache()));
}

static int said; /* the standard error of runs */
static char text[4000];

/* In a process of its own. Returns whether a point has failed. */
static bool run(unsigned int n, bool once, int *faults)
{
	char options[200];
	ssize_t length;
	int status;
	pid_t child;

	snprintf(options, sizeof(options), "%s;fail_nth=%u;fail_times=%d", getenv("SHEAF_OPTIONS"),
		 n, once);
	if (ftruncate(said, 0) || lseek(said, 0, SEEK_SET))
		exit(1);
	child = fork();
	if (child == 0) {
		dup2(said, STDERR_FILENO);
		setenv("SHEAF_OPTIONS", options, 1);
		/* Refused at the first time, it may be asked again. */
		if (provider_try() && (!once || provider_try()))
			_exit(once);
		make_all_calls(once);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child)
		exit(1);
	length = pread(said, text, sizeof(text) - 1, 0);
	text[length < 0 ? 0 : length] = '\0';
	if (status || strstr(text, "called from") || strstr(text, "BUG")) {
		printf("SHEAF_OPTIONS=\"%s\": wait status %d\n%s", options, status, text);
		++*faults;
	}
	return strstr(text, "fails on purpose");
}

int main(void)
{
	int faults = 0;

	said = memfd_create("said", MFD_CLOEXEC);
	for (int once = 0; once <= 1; once++) {
		unsigned int n = 1;

		while (run(n, once, &faults) && faults < 10)
			n++;
		printf("%s: %u points\n", once ? "one" : "all that follow", n - 1);
	}
	return faults != 0;
}
