/* SPDX-License-Identifier: MIT */
/* Reports overwritten bytes, and opens whole objects; see zones.h. */
#include "debug/zones.h"

#include "debug/report.h"

int zones_report(struct slab_cache *cache, void *object, size_t size, uint8_t byte,
		 const char *call)
{
	struct debug_cache *debug = debug_of(cache);
	struct debug_fault fault = debug_fault_of(cache, object, call);
	uint8_t *bytes = object;

	fault.fix = "the red zone was restored";
	fault.expected = byte;
	return debug_restore(&fault, bytes - debug->left, debug->left, DEBUG_LEFT_ZONE) +
	       debug_restore(&fault, bytes + size, cache->object_size - size,
			     DEBUG_REQUESTED_ZONE) +
	       debug_restore(&fault, bytes + cache->object_size, debug->right, DEBUG_RIGHT_ZONE);
}

int zones_report_poison(struct slab_cache *cache, void *object, const char *call)
{
	struct debug_fault fault = debug_fault_of(cache, object, call);
	uint8_t *bytes = object;
	int faults;

	fault.fix = debug_is_free_in_slab(cache, object)
			    ? "the poison was restored, and the object stays free"
			    : "the poison was restored, and the object will not be used again: the "
			      "code that wrote to it may do so again";
	fault.expected = ZONES_BYTE_FREE;
	faults = debug_restore(&fault, bytes, cache->object_size - 1, DEBUG_POISON);
	fault.expected = ZONES_BYTE_END;
	return faults + debug_restore(&fault, bytes + cache->object_size - 1, 1, DEBUG_END_POISON);
}

void debug_open(const struct slab_cache *cache, void *object)
{
	const struct debug_cache *debug = debug_of(cache);

	tools_open((char *)object - debug->left,
		   (size_t)debug->left + cache->object_size + debug->right);
}

void debug_close(const struct slab_cache *cache, void *object)
{
	if (!debug_of(cache)->stable)
		tools_close(object, cache->object_size);
	zones_close(cache, object, cache->object_size);
}
