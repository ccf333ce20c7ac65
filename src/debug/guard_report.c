/* SPDX-License-Identifier: MIT */
/* Reports about accesses that were refused, in the form of debug/report.h. */

#include "debug/guard_slot.h"
#include "debug/report.h"
#include "os/atomic.h"
#include "os/guard.h"
#include "os/machine.h"
#include "os/report/record.h"
#include "os/report/report.h"
#include "os/unwind/stack.h"

/* The frames of a signal handler, which are left out. */
#define HANDLER_FRAMES 6

static const char *name_of(const struct guard_slot *slot)
{
	return guard_notes_of(slot)->name;
}

/* An access to guard pages: which object it missed. */
struct miss {
	const struct guard_slot *slot;
	const char *what, *advice;
};

static size_t distance_from(const struct guard_slot *slot, const char *address)
{
	return (size_t)(address < slot->object ? slot->object - address
					       : address - slot->object - slot->object_size);
}

static const struct guard_slot *nearest_slot(const struct guard_place *place, const char *address)
{
	if (place->in)
		return place->in;
	if (!place->before || !place->after)
		return place->before ? place->before : place->after;
	return distance_from(place->before, address) <= distance_from(place->after, address)
		       ? place->before
		       : place->after;
}

static struct miss miss_of(const char *address)
{
	struct guard_place place = guard_place_of(address);
	const struct guard_slot *slot = nearest_slot(&place, address);

	if (!slot)
		return (struct miss){.slot = NULL};
	if (place.in &&
	    (guard_is_inside(slot, address) || os_load_acquire(&slot->state) != DEBUG_USED))
		return (struct miss){slot, "Use after free", DEBUG_ADVICE_OF_USE};
	if (address < slot->object)
		return (struct miss){slot, "Out of bounds, left",
				     "look for a negative index, or a pointer moved back too far"};
	return (struct miss){slot, "Out of bounds, right",
			     "look for an index or a length that is too large"};
}

static const char *access_name(enum os_access access)
{
	return access == OS_READ ? "Read of" : access == OS_WRITE ? "Write to" : "Access to";
}

/* The stack, from the instruction that faulted. */
static void tell_stack(struct os_record *report, uintptr_t ip)
{
	uintptr_t frames[TRACK_FRAMES + HANDLER_FRAMES];
	unsigned int n = os_stack_walk(frames, TRACK_FRAMES + HANDLER_FRAMES), first = 0;

	while (first < n && frames[first] != ip)
		first++;
	if (first < n)
		os_record_stack(report, frames + first, n - first);
	else if (ip)
		os_record_stack(report, &ip, 1);
}

static void tell_miss(struct os_record *report, const struct miss *miss,
		      const struct os_fault *fault)
{
	debug_tell_place(report, fault->address, miss->slot->object, miss->slot->object_size);
	os_record_add(report, "\n");
	debug_tell_guarded(report, miss->slot);
	os_record_add(report, "%s %p in thread %u on CPU %u:\n", access_name(fault->access),
		      fault->address, os_thread(), os_cpu());
	tell_stack(report, fault->ip);
	os_record_add(report,
		      "FIX %s: none; the signal is passed on to the previous handler\nTRY %s: %s\n",
		      name_of(miss->slot), name_of(miss->slot), miss->advice);
}

bool guard_explain(const void *address, const void *context)
{
	struct os_fault fault;
	struct os_record *report;
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
		os_record_end(report, false);
	}
	os_write_kept_at_fault();
	return true;
}
