/* SPDX-License-Identifier: MIT */
/*
 * A report: what happened to an object, which bytes show it, who did what, what was repaired.
 *
 * Callers: src/debug/check.c, pointer.c.
 */
#ifndef SHEAF_DEBUG_REPORT_H
#define SHEAF_DEBUG_REPORT_H

#include "debug/object.h"

struct debug_fault {
	const char *what;   /* as the kernel says it */
	const char *advice; /* where to look */
	const char *fix;    /* what was done about it */
	const char *call;   /* who found it, */
	void *pointer;	    /* and with which pointer; */
	struct slab_cache *cache;
	void *object; /* an object's first byte in `holder`, or NULL: the pointer is in none */
	struct slab_cache *holder;
	/* Bytes that should all be `expected`; NULL: it is no matter of bytes. */
	const uint8_t *from;
	size_t length;
	uint8_t expected;
};

/* One in an object of this cache. */
static inline struct debug_fault debug_fault_of(struct slab_cache *cache, void *object,
						const char *call)
{
	return (struct debug_fault){
		.call = call,
		.pointer = object,
		.cache = cache,
		.object = object,
		.holder = cache,
	};
}

void debug_report(const struct debug_fault *fault) __attribute__((cold));

/* --- pointer.c -------------------------------------------------------------------------------- */

/* Is this an object of the cache that was handed out at least once? False after a report. */
bool debug_is_object(struct slab_cache *cache, void *pointer, const char *call);

#endif
