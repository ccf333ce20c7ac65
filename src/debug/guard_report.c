/* SPDX-License-Identifier: MIT */
/* Reports about accesses that were refused, in the form of debug/report.h. */
#include <string.h>

#include "debug/guard_slot.h"
#include "debug/report.h"
#include "os/atomic.h"
#include "os/fault.h"
#include "os/long_report.h"
#include "os/machine.h"
#include "os/report.h"
#include "os/stack.h"

/* The frames of a signal handler, which are left out. */
#define HANDLER_FRAMES 6

static const char *name_of(const struct guard_slot *slot)
{
	return guard_notes_of(slot)->name;
}

/* An access to closed pages: which object it missed. */
struct miss {
	const char *what, *advice;
	const struct guard_slot *slot;
	const char *side; /* of the object; NULL: inside */
	size_t distance;
};

static size_t distance_from(const struct guard_slot *slot, uintptr_t address)
{
	uintptr_t object = (uintptr_t)slot->object;

	return address < object ? object - address : address - object - slot->object_size;
}

static struct miss miss_beside(const struct guard_slot *slot, uintptr_t address)
{
	bool left = address < (uintptr_t)slot->object;

	return (struct miss){
		.what = left ? "Out of bounds, left" : "Out of bounds, right",
		.advice = left ? "look for a negative index, or a pointer moved back too far"
			       : "look for an index or a length that is too large",
		.slot = slot,
		.side = left ? "in front of" : "past the end of",
		.distance = distance_from(slot, address),
	};
}

static struct miss miss_of(const void *pointer)
{
	struct guard_place place = guard_place_of(pointer);
	uintptr_t address = (uintptr_t)pointer;
	const struct guard_slot *slot = place.in;
	struct miss miss = {.slot = slot};

	if (!slot && place.before &&
	    (!place.after ||
	     distance_from(place.before, address) <= distance_from(place.after, address)))
		return miss_beside(place.before, address);
	if (!slot)
		return place.after ? miss_beside(place.after, address) : miss;
	if (address - (uintptr_t)slot->object >= slot->object_size)
		miss = miss_beside(slot, address);
	if (miss.side && os_load_acquire(&slot->state) == DEBUG_USED)
		return miss;
	miss.what = "Use after free";
	miss.advice = DEBUG_ADVICE_OF_USE;
	miss.distance += miss.side ? 0 : address - (uintptr_t)slot->object;
	return miss;
}

static const char *access_name(enum os_access access)
{
	switch (access) {
	case OS_READ:
		return "Read of";
	case OS_WRITE:
		return "Write to";
	default:
		return "Access to";
	}
}

/* The stack, from the instruction that faulted. */
static void tell_stack(struct os_long *report, uintptr_t ip)
{
	uintptr_t frames[TRACK_FRAMES + HANDLER_FRAMES];
	unsigned int n = os_stack_walk(frames, TRACK_FRAMES + HANDLER_FRAMES), first = 0;

	while (first < n && frames[first] != ip)
		first++;
	if (first < n)
		os_long_stack(report, frames + first, n - first);
	else if (ip)
		os_long_stack(report, &ip, 1);
}

static void tell_miss(struct os_long *report, const struct miss *miss, const struct os_fault *fault)
{
	if (miss->side)
		os_long_add(report, "%p is %zu bytes %s an object\n", fault->address,
			    miss->distance, miss->side);
	else
		os_long_add(report, "%p is %zu bytes into an object\n", fault->address,
			    miss->distance);
	debug_tell_guarded(report, miss->slot);
	os_long_add(report, "%s %p in thread %u on CPU %u:\n", access_name(fault->access),
		    fault->address, os_thread(), os_cpu());
	tell_stack(report, fault->ip);
	os_long_add(report,
		    "FIX %s: none; the signal is passed on to the previous handler\nTRY %s: %s\n",
		    name_of(miss->slot), name_of(miss->slot), miss->advice);
}

bool guard_explain(const void *address, const void *context)
{
	struct os_fault fault;
	struct os_long *report;
	struct miss miss;

	if (!guard_is_ours(address))
		return false;
	os_fault_read(&fault, address, context);
	miss = miss_of(address);
	if (!miss.slot)
		return false;
	report = debug_begin(name_of(miss.slot), miss.what);
	if (report) {
		tell_miss(report, &miss, &fault);
		os_long_end(report);
	}
	os_write_kept_at_fault();
	return true;
}
