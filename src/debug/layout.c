/* SPDX-License-Identifier: MIT */
/*
 * The room around the objects of a debug cache; slab_debug.h draws it.
 *
 * Red zones use the bytes that alignment leaves, up to a limit: larger zones find writes that stray
 * farther, but take longer to check at each call.
 */
#include <string.h>

#include "debug/zones.h"
#include "os/memory_tools.h"
#include "page/pool.h"

#define LEFT	  16u
#define RIGHT	  8u
#define MOST_ZONE 64u

/* Set up an object that was never used: all of it is free. Another thread may inspect the
 * slab and read the head at the same time. */
static void prepare(const struct slab_cache *cache, void *object)
{
	const struct debug_cache *debug = debug_of(cache);
	struct debug_head *head = debug_head(cache, object);
	char *before = (char *)object - debug->extra.before;

	tools_open(before, debug->extra.before);
	debug_open(cache, object);
	memset(before, 0, (size_t)((char *)head - before));
	os_store_relaxed(&head->state, 0);
	os_store_relaxed(&head->size, cache->object_size);
	debug_fill_free(cache, object);
	if (cache->ctor)
		cache->ctor(object);
	debug_close(cache, object);
	os_store_release(&head->state, DEBUG_FREE);
}

/* The bytes that the letters need. */
static void set_room(struct debug_cache *debug)
{
	bool zones = debug->flags & SLAB_RED_ZONE, users = debug->flags & SLAB_STORE_USER;

	debug->left = zones ? LEFT : 0;
	debug->extra.before = (uint32_t)sizeof(struct debug_head) + debug->left +
			      (users ? NR_DEBUG_DEEDS * (uint32_t)sizeof(struct debug_track) : 0);
	debug->extra.after = zones ? RIGHT : 0;
}

/* O: letters that would make slabs larger are left out. */
static bool is_larger(struct slab_cache *cache, const struct slab_request *request)
{
	struct slab_request plain = *request;
	uint32_t order = cache->min.order;
	struct slab_cache without;

	plain.extra = NULL;
	if (!slab_cache_init(&without, &plain))
		return false;
	order -= without.min.order;
	slab_cache_exit(&without);
	return order != 0;
}

/* With all letters or, if they may not make slabs larger, those that need no bytes. False: no
 * memory. */
static bool lay_out_debug(struct slab_cache *cache, struct slab_request *request,
			  struct debug_cache *debug, slab_flags_t flags)
{
	set_room(debug);
	if (!slab_cache_init(cache, request))
		return false;
	if (!(flags & DEBUG_NOT_LARGER) || !is_larger(cache, request))
		return true;
	slab_cache_exit(cache);
	debug->flags &= ~(SLAB_RED_ZONE | SLAB_STORE_USER);
	set_room(debug);
	return slab_cache_init(cache, request);
}

/* Bytes from the last object of such a slab to its end. */
static uint32_t room_at_end(const struct slab_cache *cache, struct slab_order order)
{
	return (uint32_t)((OS_PAGE << order.order) - cache->first -
			  (order.objects - 1u) * cache->size - cache->object_size);
}

/* Bytes after each object that nothing else uses. */
static uint16_t room_at_right(const struct slab_cache *cache)
{
	uint32_t room = cache->size - cache->extra->before - cache->object_size;

	if (room > room_at_end(cache, cache->oo))
		room = room_at_end(cache, cache->oo);
	if (room > room_at_end(cache, cache->min))
		room = room_at_end(cache, cache->min);
	return (uint16_t)(room < MOST_ZONE ? room : MOST_ZONE);
}

bool debug_cache_init(struct slab_cache *cache, struct slab_request *request, slab_flags_t flags)
{
	struct debug_cache *debug = pool_alloc(sizeof(*debug));

	if (!debug)
		return false;
	debug->flags = flags & (DEBUG_FLAGS | DEBUG_QUARANTINE);
	debug->stable = flags & SLAB_TYPESAFE_BY_RCU;
	debug->switched = flags & DEBUG_SWITCHED;
	if (request->ctor || flags & SLAB_TYPESAFE_BY_RCU)
		debug->flags &= ~SLAB_POISON;
	debug->extra.prepare = prepare;
	request->extra = &debug->extra;
	if (!lay_out_debug(cache, request, debug, flags)) {
		pool_free(debug, sizeof(*debug));
		return false;
	}
	if (debug->flags & SLAB_RED_ZONE)
		debug->right = room_at_right(cache);
	return true;
}

void debug_cache_exit(struct slab_cache *cache)
{
	slab_cache_exit(cache);
	pool_free(cache->extra, sizeof(struct debug_cache));
	cache->extra = NULL;
}
