/* SPDX-License-Identifier: MIT */
/* What a test is about and SHEAF_OPTIONS may take away. Such a test says so, and is skipped. */
#ifndef SHEAF_TESTS_NEEDS_H
#define SHEAF_TESTS_NEEDS_H

#include "cache/process.h"
#include "kit/unit.h"
#include "os/options/options.h"

enum need {
	NEED_SHEAVES,	 /* allocations and frees of single objects go through them */
	NEED_MERGING,	 /* caches whose objects have the same size are one */
	NEED_ONE_KMALLOC /* every place in the program uses the same caches */
};

/* Skip this test, with the reason, if the options take away what it needs. */
static inline void needs(enum need what)
{
	const struct os_options *o = &os_options;

	assert_true(caches_ready());

	const struct {
		const char *name;
		bool missing;
	} all[] = {
		[NEED_SHEAVES] = {"sheaves", *o->slab_debug || o->tiny},
		[NEED_MERGING] = {"merged caches", *o->slab_debug || o->nomerge},
		[NEED_ONE_KMALLOC] = {"common caches of kmalloc()", o->random_kmalloc_caches > 1},
	};

	if (all[what].missing) {
		print_message("skipped: with these options there are no %s\n", all[what].name);
		skip();
	}
}

/* For a program whose tests are all about an option: without it they would wait for ever. */
static inline bool has_option(bool is_set, const char *option)
{
	if (!is_set)
		print_message("skipped: needs SHEAF_OPTIONS=%s\n", option);
	return is_set;
}

#define SKIPPED 77 /* the exit status that Meson takes for that */

#endif
