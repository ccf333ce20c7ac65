/* SPDX-License-Identifier: MIT */
/* A quarantine that is larger than memory, or for which there is none: one line, and the program
 * goes on. Each test runs in a child, in which the library begins. */
#include <sheaf/slab.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "kit/check.h"
#include "kit/process.h"
#include "kit/told.h"
#include "kit/unit.h"

static struct told told;

static void silent(const char *options, void (*body)(void), const char *says)
{
	int how, lines;

	setenv("SHEAF_OPTIONS", options, 1);
	told_begin(&told);
	how = in_child(body);
	lines = told_end(&told);
	if (how || lines != (says ? 1 : 0) || (says && !strstr(told.text, says)))
		fail_msg("ended with %x, and said:\n%s", how, told.text);
}

static void use(size_t resting)
{
	struct kmem_cache *s = kmem_cache_create("resting", 100, NULL, 0);

	CHECK(s);
	for (int i = 0; i < 1000; i++)
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	CHECK(quarantine_bytes() == resting * s->sheaf.slab.size);
	CHECK(kmem_cache_verify(s) <= 0); /* that needs memory, too */
	kmem_cache_destroy(s);
}

static void all_rest(void)
{
	use(1000);
}

static void none_rests(void)
{
	struct kmem_cache *s = kmem_cache_create("plain", 100, NULL, 0);

	CHECK(s);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	no_more_memory();
	use(0);
}

static void more_than_memory(void **state)
{
	(void)state;
	silent("slab_debug=Q", all_rest, NULL);
	silent("slab_debug=Q;slab_quarantine=1048576", all_rest,
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
