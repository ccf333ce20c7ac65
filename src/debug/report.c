/* SPDX-License-Identifier: MIT */
/* Reports in the kernel's format; see report.h. */
#include "debug/report.h"

#include <stdio.h>
#include <string.h>

#include "debug/guard_slot.h"
#include "debug/zones.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/report/record.h"

#define LINE "============================================================================="
#define THIN "-----------------------------------------------------------------------------"

#define ROW	   16
#define MOST_ROWS  8 /* of a dump */
#define ROWS_AHEAD 2 /* in front of the first wrong byte */

/* A dump that is being made. */
struct dump {
	struct os_record *report;
	const struct debug_fault *fault;
	const uint8_t *first; /* the first wrong byte, or the object's first */
	unsigned int rows;
};

/* The bytes may change meanwhile: an object that was freed twice has two owners. */
static TOOLS_LOOK const uint8_t *first_wrong(const struct debug_fault *fault)
{
	const uint8_t *byte = fault->from, *last = byte + fault->length - 1;

	while (byte < last && *byte == fault->expected)
		byte++;
	return byte;
}

static TOOLS_LOOK const uint8_t *last_wrong(const struct debug_fault *fault)
{
	const uint8_t *byte = fault->from + fault->length - 1;

	while (byte > fault->from && *byte == fault->expected)
		byte--;
	return byte;
}

static TOOLS_LOOK void tell_wrong(struct os_record *report, const struct debug_fault *fault)
{
	const uint8_t *first = first_wrong(fault), *last = last_wrong(fault);
	const uint8_t *object = fault->object;

	os_record_add(report, "%p-%p @offset=%td..%td. First byte 0x%02x instead of 0x%02x\n",
		      (const void *)first, (const void *)last, first - object, last - object,
		      *first, fault->expected);
}

static TOOLS_LOOK bool is_wrong_byte(const struct debug_fault *fault, const uint8_t *byte)
{
	return fault->from && byte >= fault->from && byte < fault->from + fault->length &&
	       *byte != fault->expected;
}

/* With a mark in front of each wrong byte. */
static TOOLS_LOOK void dump_row(struct dump *dump, const char *label, const uint8_t *from,
				const uint8_t *to)
{
	char hex[4 * ROW], text[ROW + 1];
	size_t used = 0, n = (size_t)(to - from);

	for (size_t i = 0; i < n; i++) {
		used += (size_t)snprintf(hex + used, sizeof(hex) - used, "%c%02x",
					 is_wrong_byte(dump->fault, from + i) ? '>' : ' ', from[i]);
		text[i] = (char)(from[i] >= ' ' && from[i] < 0x7f ? from[i] : '.');
	}
	text[n] = '\0';
	os_record_add(dump->report, "%-8s %+5td:%-*s  %s\n", label,
		      from - (const uint8_t *)dump->fault->object, 3 * ROW, hex, text);
	dump->rows++;
}

/* Rows of one kind of bytes, near the first wrong one. */
static TOOLS_LOOK void dump_part(struct dump *dump, const char *label, const uint8_t *from,
				 const uint8_t *to)
{
	for (; from < to && dump->rows < MOST_ROWS; from += ROW) {
		const uint8_t *end = to - from > ROW ? from + ROW : to;

		if (end + (ptrdiff_t)(ROWS_AHEAD * ROW) > dump->first)
			dump_row(dump, label, from, end);
	}
}

static struct debug_zones zones_of(const struct debug_fault *fault)
{
	const struct debug_cache *debug;
	uint8_t *object = (uint8_t *)(uintptr_t)fault->object;

	if (fault->slot)
		return guard_zones_of(fault->slot);
	debug = debug_of(fault->holder);
	return (struct debug_zones){
		.open = object - debug->left,
		.object = object,
		.end = object + debug_size(fault->holder, object),
		.closed = object + fault->holder->object_size + debug->right,
	};
}

static void dump_object(struct os_record *report, const struct debug_fault *fault)
{
	struct debug_zones zones = zones_of(fault);
	struct dump dump = {.report = report, .fault = fault, .first = zones.object};

	if (fault->from)
		dump.first = first_wrong(fault);
	dump_part(&dump, "Redzone", zones.open, zones.object);
	dump_part(&dump, "Object", zones.object, zones.end);
	dump_part(&dump, "Redzone", zones.end, zones.closed);
}

static const char *state_words(uint32_t state)
{
#define WORDS(name, value, words)                                                                  \
	case DEBUG_##name:                                                                         \
		return words;
	switch (state) {
		DEBUG_STATES(WORDS)
	default:
		return "unknown";
	}
}

void debug_tell_guarded(struct os_record *report, const struct guard_slot *slot)
{
	const struct guard_notes *notes = guard_notes_of(slot);

	os_record_add(report, "Guarded object %p @cache=%s size=%u, %s\n", slot->object,
		      notes->name, os_load_relaxed(&slot->size),
		      state_words(os_load_acquire(&slot->state)));
	track_print(report, &notes->tracks[DEBUG_ALLOCATED], "Allocated");
	track_print(report, &notes->tracks[DEBUG_FREED], "Freed");
}

static void tell_slab_object(struct os_record *report, const struct slab_cache *cache,
			     const void *object, size_t size)
{
	struct slab *slab = page_slab(object);
	uint64_t state = os_load_relaxed(&slab->state);

	os_record_add(report, "Slab %p objects=%u used=%u\n", (void *)page_address(slab),
		      slab_order_of(cache, state).objects, slab_inuse(state));
	os_record_add(report, "Object %p @cache=%s size=%zu", object, cache->name, size);
	if (!cache->extra) {
		os_record_add(report, "\n");
		return;
	}
	os_record_add(report, ", %s\n",
		      state_words(os_load_acquire(&debug_head(cache, object)->state)));
	track_print(report, debug_track(cache, object, DEBUG_ALLOCATED), "Allocated");
	track_print(report, debug_track(cache, object, DEBUG_FREED), "Freed");
}

void debug_tell_object(struct os_record *report, const struct debug_fault *fault)
{
	const struct slab_cache *cache = fault->holder;
	size_t size = fault->slot    ? fault->slot->object_size
		      : cache->extra ? debug_size(cache, fault->object)
				     : cache->object_size;

	if (fault->pointer != fault->object) {
		debug_tell_place(report, fault->pointer, fault->object, size);
		os_record_add(report, "\n");
	}
	if (fault->slot)
		debug_tell_guarded(report, fault->slot);
	else
		tell_slab_object(report, cache, fault->object, size);
	/* The pages of a guarded object may be closed, unless they were just looked at. */
	if (fault->slot ? fault->from != NULL : cache->extra != NULL)
		dump_object(report, fault);
}

bool debug_has_object(const struct debug_fault *fault)
{
	struct slab *slab = fault->object && !fault->slot ? page_slab(fault->object) : NULL;

	return fault->slot || (slab && os_load_acquire(&slab->cache) == fault->holder &&
			       (!fault->holder->extra ||
				slab_is_prepared(fault->holder, slab,
						 slab_index(fault->holder, slab, fault->object))));
}

struct os_record *debug_begin(const char *name, const char *what)
{
	struct os_record *report = os_record_begin(name, what);

	os_record_add(report, LINE "\nlibsheaf: BUG %s: %s\n" THIN "\n", name, what);
	return report;
}

static void tell_finder(struct os_record *report, const struct debug_fault *fault, const char *name)
{
	struct debug_track now;

	track_now(&now);
	os_record_add(report, "Found by %s(%s, %p) in thread %u on CPU %u%s\n", fault->call, name,
		      fault->pointer, now.thread, now.cpu, now.n ? ":" : "");
	os_record_stack(report, now.ip, now.n);
}

void debug_report(const struct debug_fault *fault, const char *what, const char *advice)
{
	const char *owner = fault->slot	    ? guard_notes_of(fault->slot)->name
			    : fault->holder ? fault->holder->name
					    : "(any)";
	const char *name = fault->cache ? fault->cache->name : owner;
	bool has_object = debug_has_object(fault);
	bool users = fault->slot || (fault->cache && debug_stores_users(fault->cache));
	struct os_record *report = debug_begin(name, what);

	if (!report)
		return;
	tools_look(true);
	if (fault->from)
		tell_wrong(report, fault);
	if (fault->cache && fault->holder && fault->holder != fault->cache)
		os_record_add(report, "%p belongs to %s, not to %s\n", fault->pointer, owner, name);
	else if (!fault->holder && !fault->slot)
		os_record_add(report, "%p is in no object\n", fault->pointer);
	if (has_object)
		debug_tell_object(report, fault);
	tools_look(false);
	tell_finder(report, fault, name);
	os_record_add(
		report, "FIX %s: %s\nTRY %s: %s%s\n", name, fault->fix, name, advice,
		users || !has_object ? "" : "; slab_debug with U shows who allocated and freed it");
	os_record_end(report, false);
}

void debug_report_state(const struct debug_fault *fault, uint32_t state, const char *advice)
{
	if (!advice)
		advice = state == DEBUG_WAITS
				 ? "kfree_rcu() already frees it: remove one of the two calls"
				 : "look for two owners that both free it";
	debug_report(fault,
		     state == DEBUG_WAITS ? "Object waits for a grace period"
					  : "Object already free",
		     advice);
}

void debug_report_damage(struct debug_fault *fault, const uint8_t *from, size_t length,
			 enum debug_damage damage)
{
	static const char after_free[] = "something wrote to the object after it was freed: look "
					 "for a pointer to it that is used after the free";
	static const char *const words[][2] = {
		[DEBUG_LEFT_ZONE] = {"Left Redzone overwritten",
				     "something wrote in front of this object, or past the end of "
				     "the one before it: look for a negative index, or a pointer "
				     "moved back too far"},
		[DEBUG_LEFT_ZONE_GUARDED] = {"Left Redzone overwritten",
					     "something wrote in front of this object: look for a "
					     "negative index, or a pointer moved back too far"},
		[DEBUG_REQUESTED_ZONE] = {"kmalloc Redzone overwritten",
					  "something wrote past the bytes that were requested: "
					  "look for a length that is larger than the one given to "
					  "kmalloc()"},
		[DEBUG_RIGHT_ZONE] = {"Right Redzone overwritten",
				      "something wrote past the end of this object: look for an "
				      "index or a length that is too large"},
		[DEBUG_POISON] = {"Poison overwritten", after_free},
		[DEBUG_END_POISON] = {"End Poison overwritten", after_free},
	};

	fault->from = from;
	fault->length = length;
	debug_report(fault, words[damage][0], words[damage][1]);
}

int debug_restore(struct debug_fault *fault, uint8_t *from, size_t length, enum debug_damage damage)
{
	if (bytes_are(from, length, fault->expected))
		return 0;
	debug_report_damage(fault, from, length, damage);
	memset(from, fault->expected, length);
	return 1;
}
