/* SPDX-License-Identifier: MIT */
/* Caches with letters of slab_debug, and their reports, compared to the letter. */
#ifndef SHEAF_TESTS_DEBUG_CACHE_H
#define SHEAF_TESTS_DEBUG_CACHE_H

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/masked.h"
#include "kit/unit.h"

#define FZPU (SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER)

#define HEAD(cache, what)                                                                          \
	"=============================================================================\n"          \
	"libsheaf: BUG " cache ": " what "\n"                                                      \
	"-----------------------------------------------------------------------------\n"
#define SLAB		"Slab PTR objects=N used=N\n"
#define ALLOCATED	"Allocated N ms ago by thread N on CPU N\n"
#define FREED		"Freed N ms ago by thread N on CPU N\n"
#define FOUND(by)	"Found by " by ", PTR) in thread N on CPU N\n"
#define FIX(cache, fix) "FIX " cache ": " fix "\n"
#define TRY(cache, try) "TRY " cache ": " try "\n"
#define IGNORED		"the call was ignored"
#define RESTORED	"the red zone was restored"
#define WROTE_AFTER                                                                                \
	"something wrote to the object after it was freed: look for a pointer to it that is used " \
	"after the free"
#define WROTE_BEFORE                                                                               \
	"something wrote in front of this object, or past the end of the one before it: look for " \
	"a negative index, or a pointer moved back too far"
#define KEPT_OUT                                                                                   \
	"the poison was restored, and the object will not be used again: the code that wrote to "  \
	"it may do so again"

/* Rows of a dump. */
#define BYTES8(b)  " " b " " b " " b " " b " " b " " b " " b " " b
#define BYTES16(b) BYTES8(b) BYTES8(b)
#define GAP8	   "                        "
#define LEFT(b)	   "Redzone    -16:" BYTES16(b) "  ................\n"
#define RIGHT32(b) "Redzone    +32:" BYTES8(b) GAP8 "  ........\n"
#define POISON_ROWS                                                                                \
	"Object      +0:" BYTES16(                                                                 \
		"6b") "  kkkkkkkkkkkkkkkk\n"                                                       \
		      "Object     +16:" BYTES8(                                                    \
			      "6b") " 6b 6b 6b 6b 6b 6b 6b a5  kkkkkkkkkkkkkkk.\n"
#define FRESH(offset) "Object     " offset ":" BYTES16("5a") "  ZZZZZZZZZZZZZZZZ\n"

static struct capture captured;
static struct masked masked;

/* A cache with these letters, whatever slab_debug says. */
static inline struct kmem_cache *checked(const char *name, slab_flags_t letters)
{
	return make(name, 32, letters | SLAB_NO_USER_FLAGS);
}

static inline char *take(struct kmem_cache *s)
{
	char *object = kmem_cache_alloc(s, GFP_KERNEL);

	assert_non_null(object);
	return object;
}

static inline void reported_exactly(const char *expected)
{
	assert_true(capture_end(&captured) >= 0);
	assert_string_equal(mask(&masked, captured.text), expected);
}

/* Nothing more is wrong, and nothing is left. */
static inline void end(struct kmem_cache *s)
{
	capture_begin(&captured);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
	assert_int_equal(capture_end(&captured), 0);
}

#endif
