/* SPDX-License-Identifier: MIT */
/*
 * Check an object of a cache that is in use. The caller holds its slab (slab/hold.c): an object
 * that is free in it stays free, and may be checked and repaired as in a quiet cache. A used one
 * belongs to its owner, who may free it meanwhile and then writes its red zones: what looks wrong
 * counts only if the object is still used, with the same size, after the check; and nothing in it
 * is repaired. An object in quarantine is left out, because the thread that lets it go checks it,
 * perhaps at the same time.
 */
#include "debug/report.h"
#include "os/atomic.h"
#include "os/memory_tools.h"

/* The owner may write at the same time: then the result is discarded. */
static OS_NO_TSAN TOOLS_LOOK bool looks_wrong(const uint8_t *from, size_t length, uint8_t expected)
{
	const volatile uint8_t *bytes = from;
	bool wrong = false;

	tools_look(true);
	for (size_t i = 0; i < length && !wrong; i++)
		wrong = bytes[i] != expected;
	tools_look(false);
	return wrong;
}

/* An object that is in use, and the size that it had before the check. */
struct used {
	struct slab_cache *cache;
	void *object;
	size_t size;
};

/* Twice, because the size may have become larger, and smaller again, during a check. */
static int check_zone(const struct used *used, const uint8_t *from, size_t length,
		      enum debug_damage damage)
{
	struct debug_fault fault = debug_fault_of(used->cache, used->object, "kmem_cache_validate");
	size_t size;

	for (int i = 0; i < 2; i++) {
		if (!looks_wrong(from, length, DEBUG_ZONE_USED))
			return 0;
		os_fence();
		if (!debug_in_use(used->cache, used->object, &size) || size != used->size)
			return 0;
	}
	fault.fix =
		"nothing was changed, because the object is in use; its free will report it again";
	fault.expected = DEBUG_ZONE_USED;
	debug_report_damage(&fault, from, length, damage);
	return 1;
}

static int validate_used(struct slab_cache *cache, void *object)
{
	struct debug_cache *debug = debug_of(cache);
	struct used used = {.cache = cache, .object = object};
	const uint8_t *first = object, *end = first + cache->object_size;

	if (!debug_in_use(cache, object, &used.size) || !(debug->flags & SLAB_RED_ZONE))
		return 0;
	return check_zone(&used, first - debug->left, debug->left, DEBUG_LEFT_ZONE) +
	       check_zone(&used, first + used.size, cache->object_size - used.size,
			  DEBUG_REQUESTED_ZONE) +
	       check_zone(&used, end, debug->right, DEBUG_RIGHT_ZONE);
}

int debug_validate(struct slab_cache *cache, void *object, bool is_free)
{
	if (is_free)
		return debug_verify(cache, object, true, false, "kmem_cache_validate");
	return validate_used(cache, object);
}
