/* SPDX-License-Identifier: MIT */
/* What a test needs and SHEAF_OPTIONS may switch off. Then the test says so, and is skipped. */
#ifndef SHEAF_TESTS_NEEDS_H
#define SHEAF_TESTS_NEEDS_H

#include "kit/options.h"
#include "kit/process.h"
#include "kit/unit.h"

enum need {
	NEED_SHEAVES,	  /* allocations and frees of single objects go through them */
	NEED_MERGING,	  /* caches whose objects have the same size are one */
	NEED_ONE_KMALLOC, /* every place in the program uses the same caches */
	NEED_SLABS,	  /* each object is in a slab */
	NEED_KEPT_PAGES	  /* free pages stay for a time */
};

/* Skip this test, with the reason, if the options take away what it needs. */
static inline void needs(enum need what)
{
	const struct {
		const char *name;
		bool missing;
	} all[] = {
		[NEED_SHEAVES] = {"sheaves", has_slab_debug() || is_tiny()},
		[NEED_MERGING] = {"merged caches", has_slab_debug() || has_option("slab_nomerge")},
		[NEED_ONE_KMALLOC] = {"common caches of kmalloc()", sets_of_kmalloc() > 1},
		[NEED_SLABS] = {"slabs of all objects", has_debug_letter('S')},
		[NEED_KEPT_PAGES] = {"free pages that stay", is_tiny()},
	};

	if (all[what].missing) {
		print_message("skipped: with these options there are no %s\n", all[what].name);
		skip();
	}
}

/* Skip this test if a child's start_again() found that an emulator cannot do it. */
static inline void needs_image(int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_STARTED) {
		print_message("skipped: this emulator cannot start the program again\n");
		skip();
	}
}

/* For a program whose tests are all about an option: without it they would wait forever. */
static inline bool needs_option(bool is_given, const char *option)
{
	if (!is_given)
		print_message("skipped: needs SHEAF_OPTIONS=%s\n", option);
	return is_given;
}

#define SKIPPED 77 /* the exit status that Meson takes for that */

#endif
