/* SPDX-License-Identifier: MIT */
/* A quarantine that is larger than memory, or for which there is none: one line reports it, and the
 * program continues. Each test runs in a child, which uses the library for the first time. */
#include <sheaf/slab.h>
#include <stdlib.h>
#include <string.h>

#include "kit/capture.h"
#include "kit/check.h"
#include "kit/objects.h"
#include "kit/process.h"
#include "kit/unit.h"

enum {
	MANY = 1000
};

static struct capture captured;
static void *seen[MANY];

static void silent(const char *options, void (*body)(void), const char *says)
{
	int how, lines;

	setenv("SHEAF_OPTIONS", options, 1);
	capture_begin(&captured);
	how = in_child(body);
	lines = capture_end(&captured);
	if (how || lines != (says ? 1 : 0) || (says && !strstr(captured.text, says)))
		fail_msg("ended with %x, and said:\n%s", how, captured.text);
}

/* An object in quarantine is not allocated again. */
static size_t nr_distinct(void)
{
	size_t n = 1;

	qsort(seen, MANY, sizeof(seen[0]), by_address);
	for (size_t i = 1; i < MANY; i++)
		n += seen[i] != seen[i - 1];
	return n;
}

static void use(bool all_rest)
{
	struct kmem_cache *s = kmem_cache_create("resting", 100, NULL, 0);

	CHECK(s);
	for (size_t i = 0; i < MANY; i++) {
		seen[i] = kmem_cache_alloc(s, GFP_KERNEL);
		CHECK(seen[i]);
		kmem_cache_free(s, seen[i]);
	}
	CHECK((nr_distinct() == MANY) == all_rest);
	CHECK(kmem_cache_verify(s) <= 0); /* that needs memory, too */
	kmem_cache_destroy(s);
}

static void each_rests(void)
{
	use(true);
}

static void none_rests(void)
{
	struct kmem_cache *s = kmem_cache_create("plain", 100, NULL, 0);

	CHECK(s);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	no_more_memory();
	use(false);
}

static void more_than_memory(void **state)
{
	(void)state;
	silent("slab_debug=Q", each_rests, NULL);
	silent("slab_debug=Q;slab_quarantine=1048576", each_rests,
	       "slab_quarantine=1048576 is more than the ");
}

static void no_memory(void **state)
{
	(void)state;
	silent("slab_debug=Q,resting", none_rests, "limit of data, 0 KiB. Raise it (ulimit -d)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_than_memory),
		cmocka_unit_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
