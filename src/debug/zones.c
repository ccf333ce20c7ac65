/* SPDX-License-Identifier: MIT */
/* Reports overwritten bytes, and opens whole objects; see zones.h. */
#include "debug/zones.h"

#include <string.h>

#include "debug/report.h"

/* Report and restore bytes that do not have the expected value. Returns whether there were any. */
static bool is_overwritten(struct debug_fault fault, uint8_t *from, size_t length, uint8_t expected)
{
	if (__builtin_expect(bytes_are(from, length, expected), 1))
		return false;
	fault.from = from;
	fault.length = length;
	fault.expected = expected;
	debug_report(&fault);
	memset(from, expected, length);
	return true;
}

int zones_report(struct slab_cache *cache, void *object, size_t size, uint8_t byte,
		 const char *call)
{
	struct debug_cache *debug = debug_of(cache);
	struct debug_fault fault = debug_fault_of(cache, object, call);
	uint8_t *end = (uint8_t *)object + cache->object_size;
	int faults = 0;

	fault.what = "Left Redzone overwritten";
	fault.fix = "the red zone was restored";
	fault.advice = "something wrote in front of this object, or past the end of the one "
		       "before it: look for a negative index, or a pointer moved back too far";
	faults += is_overwritten(fault, (uint8_t *)object - debug->left, debug->left, byte);
	fault.what = "kmalloc Redzone overwritten";
	fault.advice = "something wrote past the bytes that were requested: look for a length that "
		       "is larger than the one given to kmalloc()";
	faults += is_overwritten(fault, (uint8_t *)object + size, cache->object_size - size, byte);
	fault.what = "Right Redzone overwritten";
	fault.advice = "something wrote past the end of this object: look for an index or a length "
		       "that is too large";
	faults += is_overwritten(fault, end, debug->right, byte);
	return faults;
}

int zones_report_poison(struct slab_cache *cache, void *object, const char *call)
{
	struct debug_fault fault = debug_fault_of(cache, object, call);
	uint8_t *bytes = object;
	int faults;

	fault.what = "Poison overwritten";
	fault.fix = debug_is_free_in_slab(cache, object)
			    ? "the poison was restored, and the object stays free"
			    : "the poison was restored, and the object will not be used again: the "
			      "code that wrote to it may do so again";
	fault.advice = "something wrote to the object after it was freed: look for a pointer to it "
		       "that is used after the free";
	faults = is_overwritten(fault, bytes, cache->object_size - 1, ZONES_BYTE_FREE);
	fault.what = "End Poison overwritten";
	return faults + is_overwritten(fault, bytes + cache->object_size - 1, 1, ZONES_BYTE_END);
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
