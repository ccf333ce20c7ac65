/* SPDX-License-Identifier: MIT */
/*
 * The bytes of an object of a debug cache and of its red zones: filled, checked, and opened for the
 * library where a tool watches memory. slab_debug.h says which bytes they should have.
 *
 * The checks are inline, because each allocation and free makes them; their reports are not.
 *
 * Locks: none. Callers: src/debug/ only.
 */
#ifndef SHEAF_DEBUG_ZONES_H
#define SHEAF_DEBUG_ZONES_H

#include <string.h>

#include "debug/object.h"
#include "os/compiler.h"
#include "os/memory_tools.h"

/*
 * Fill a few bytes with one value, and check that they still have it. Red zones and most objects
 * are so small that calls of memset() and memcmp() would cost more than the work itself: up to
 * BYTES_FEW bytes are handled here, in whole words.
 */
#define BYTES_FEW 64

static inline uint64_t bytes_word(uint8_t byte)
{
	return byte * UINT64_C(0x0101010101010101);
}

/* Word by word; the last word may overlap the one before. */
static inline void bytes_fill(uint8_t *bytes, size_t length, uint8_t byte)
{
	const uint64_t word = bytes_word(byte);

	if (length > BYTES_FEW || length < sizeof(word)) {
		memset(bytes, byte, length);
		return;
	}
	for (size_t i = 0; i + sizeof(word) <= length; i += sizeof(word))
		memcpy(bytes + i, &word, sizeof(word));
	memcpy(bytes + length - sizeof(word), &word, sizeof(word));
}

static inline bool bytes_are(const uint8_t *bytes, size_t length, uint8_t byte)
{
	const uint64_t expected = bytes_word(byte);
	uint64_t word, wrong = 0;

	if (length > BYTES_FEW || length < sizeof(word))
		return !length || (bytes[0] == byte && !memcmp(bytes, bytes + 1, length - 1));
	for (size_t i = 0; i + sizeof(word) <= length; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		wrong |= word ^ expected;
	}
	memcpy(&word, bytes + length - sizeof(word), sizeof(word));
	return !(wrong | (word ^ expected));
}

#define ZONES_BYTE_FREE 0x6b
#define ZONES_BYTE_END	0xa5
#define ZONES_FREE	0xbb

static inline void zones_fill(const struct slab_cache *cache, uint8_t *object, size_t size,
			      uint8_t byte)
{
	const struct debug_cache *debug = debug_of(cache);

	if (!(debug->flags & SLAB_RED_ZONE))
		return;
	bytes_fill(object - debug->left, debug->left, byte);
	bytes_fill(object + size, cache->object_size - size + debug->right, byte);
}

/* Fill the object and its red zones like those of a free object. */
static inline void debug_fill_free(const struct slab_cache *cache, void *object)
{
	if (debug_of(cache)->flags & SLAB_POISON) {
		bytes_fill(object, cache->object_size - 1, ZONES_BYTE_FREE);
		((uint8_t *)object)[cache->object_size - 1] = ZONES_BYTE_END;
	}
	zones_fill(cache, object, cache->object_size, ZONES_FREE);
}

/* --- zones.c ---------------------------------------------------------------------------------- */

/* Report what is wrong with the red zones, or with the poison, and restore it. Returns the number
 * of faults. */
int zones_report(struct slab_cache *cache, void *object, size_t size, uint8_t byte,
		 const char *call) OS_COLD;
int zones_report_poison(struct slab_cache *cache, void *object, const char *call) OS_COLD;

/* For tools that watch memory: the library may access a free object and its red zones, or nobody
 * may again. Readers may always read a stable object. */
void debug_open(const struct slab_cache *cache, void *object);
void debug_close(const struct slab_cache *cache, void *object);

/* --- checks: they return the number of faults ------------------------------------------------- */

/* Both red zones; the right one begins `size` bytes into the object. */
static inline int zones_check(struct slab_cache *cache, void *object, size_t size, uint8_t byte,
			      const char *call)
{
	const struct debug_cache *debug = debug_of(cache);
	const uint8_t *bytes = object;

	if (!(debug->flags & SLAB_RED_ZONE) ||
	    (bytes_are(bytes - debug->left, debug->left, byte) &&
	     bytes_are(bytes + size, cache->object_size - size + debug->right, byte)))
		return 0;
	return zones_report(cache, object, size, byte, call);
}

static inline int zones_check_poison(struct slab_cache *cache, void *object, const char *call)
{
	const uint8_t *bytes = object;

	if (!(debug_of(cache)->flags & SLAB_POISON) ||
	    (bytes_are(bytes, cache->object_size - 1, ZONES_BYTE_FREE) &&
	     bytes[cache->object_size - 1] == ZONES_BYTE_END))
		return 0;
	return zones_report_poison(cache, object, call);
}

static inline int zones_check_free(struct slab_cache *cache, void *object, const char *call)
{
	return zones_check(cache, object, cache->object_size, ZONES_FREE, call) +
	       zones_check_poison(cache, object, call);
}

static inline int zones_check_used(struct slab_cache *cache, void *object, const char *call)
{
	return zones_check(cache, object, debug_size(cache, object), DEBUG_ZONE_USED, call);
}

/* The library may access the red zones of an object of this size during a check, and nobody may
 * access them after it. */
static inline void zones_open(const struct slab_cache *cache, void *object, size_t size)
{
	const struct debug_cache *debug = debug_of(cache);

	tools_open((char *)object - debug->left, debug->left);
	tools_open((char *)object + size, cache->object_size - size + debug->right);
}

static inline void zones_close(const struct slab_cache *cache, void *object, size_t size)
{
	const struct debug_cache *debug = debug_of(cache);

	tools_close((char *)object - debug->left, debug->left);
	tools_close((char *)object + size, cache->object_size - size + debug->right);
}

#endif
