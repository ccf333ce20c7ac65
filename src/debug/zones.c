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
	return debug_restore(&fault, bytes - debug->left, debug->left, "Left Redzone overwritten",
			     "something wrote in front of this object, or past the end of the one "
			     "before it: look for a negative index, or a pointer moved back too "
			     "far") +
	       debug_restore(&fault, bytes + size, cache->object_size - size,
			     "kmalloc Redzone overwritten",
			     "something wrote past the bytes that were requested: look for a "
			     "length that is larger than the one given to kmalloc()") +
	       debug_restore(&fault, bytes + cache->object_size, debug->right,
			     "Right Redzone overwritten",
			     "something wrote past the end of this object: look for an index or a "
			     "length that is too large");
}

int zones_report_poison(struct slab_cache *cache, void *object, const char *call)
{
	static const char advice[] = "something wrote to the object after it was freed: look for a "
				     "pointer to it that is used after the free";
	struct debug_fault fault = debug_fault_of(cache, object, call);
	uint8_t *bytes = object;
	int faults;

	fault.fix = debug_is_free_in_slab(cache, object)
			    ? "the poison was restored, and the object stays free"
			    : "the poison was restored, and the object will not be used again: the "
			      "code that wrote to it may do so again";
	fault.expected = ZONES_BYTE_FREE;
	faults = debug_restore(&fault, bytes, cache->object_size - 1, "Poison overwritten", advice);
	fault.expected = ZONES_BYTE_END;
	return faults + debug_restore(&fault, bytes + cache->object_size - 1, 1,
				      "End Poison overwritten", advice);
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
