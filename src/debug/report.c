/* SPDX-License-Identifier: MIT */
/* Reports in the kernel's format; see report.h. */
#include "debug/report.h"

#include <stdio.h>
#include <string.h>

#include "os/atomic.h"
#include "os/long_report.h"
#include "os/machine.h"
#include "os/report.h"
#include "os/tools.h"

#define LINE "============================================================================="
#define THIN "-----------------------------------------------------------------------------"

#define ROW	   16
#define MOST_ROWS  8 /* of a dump */
#define ROWS_AHEAD 2 /* in front of the first wrong byte */

/* A dump that is being made. */
struct dump {
	struct os_long *report;
	const struct debug_bytes *bytes;
	const uint8_t *first; /* the first wrong byte, or the object's first */
	unsigned int rows;
};

/* The bytes may change meanwhile: an object that was freed twice has two owners. */
static TOOLS_LOOK const uint8_t *first_wrong(const struct debug_bytes *bytes)
{
	const uint8_t *byte = bytes->from, *last = byte + bytes->length - 1;

	while (byte < last && *byte == bytes->expected)
		byte++;
	return byte;
}

static TOOLS_LOOK const uint8_t *last_wrong(const struct debug_bytes *bytes)
{
	const uint8_t *byte = bytes->from + bytes->length - 1;

	while (byte > bytes->from && *byte == bytes->expected)
		byte--;
	return byte;
}

TOOLS_LOOK void debug_tell_wrong(struct os_long *report, const struct debug_bytes *bytes)
{
	const uint8_t *first = first_wrong(bytes), *last = last_wrong(bytes);

	os_long_add(report, "%p-%p @offset=%td..%td. First byte 0x%02x instead of 0x%02x\n",
		    (const void *)first, (const void *)last, first - bytes->object,
		    last - bytes->object, *first, bytes->expected);
}

static TOOLS_LOOK bool is_wrong_byte(const struct debug_bytes *bytes, const uint8_t *byte)
{
	return bytes->from && byte >= bytes->from && byte < bytes->from + bytes->length &&
	       *byte != bytes->expected;
}

/* With a mark in front of each wrong byte. */
static TOOLS_LOOK void dump_row(struct dump *dump, const char *label, const uint8_t *from,
				const uint8_t *to)
{
	char hex[4 * ROW], text[ROW + 1];
	size_t used = 0, n = (size_t)(to - from);

	for (size_t i = 0; i < n; i++) {
		used += (size_t)snprintf(hex + used, sizeof(hex) - used, "%c%02x",
					 is_wrong_byte(dump->bytes, from + i) ? '>' : ' ', from[i]);
		text[i] = (char)(from[i] >= ' ' && from[i] < 0x7f ? from[i] : '.');
	}
	text[n] = '\0';
	os_long_add(dump->report, "%-8s %+5td:%-*s  %s\n", label, from - dump->bytes->object,
		    3 * ROW, hex, text);
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

void debug_dump(struct os_long *report, const struct debug_bytes *bytes)
{
	const uint8_t *object = bytes->object, *end = object + bytes->size;
	struct dump dump = {.report = report, .bytes = bytes, .first = object};

	if (bytes->from)
		dump.first = first_wrong(bytes);
	dump_part(&dump, "Redzone", object - bytes->left, object);
	dump_part(&dump, "Object", object, end);
	dump_part(&dump, "Redzone", end, end + bytes->right);
}

static struct debug_bytes bytes_of(const struct debug_fault *fault)
{
	const struct slab_cache *cache = fault->holder;
	const struct debug_cache *debug = debug_of(cache);
	size_t size = debug_size(cache, fault->object);

	return (struct debug_bytes){
		.object = fault->object,
		.left = debug->left,
		.size = size,
		.right = cache->object_size - size + debug->right,
		.from = fault->from,
		.length = fault->length,
		.expected = fault->expected,
	};
}

const char *debug_state_name(uint32_t state)
{
	switch (state) {
	case DEBUG_FREE:
		return "free";
	case DEBUG_USED:
		return "in use";
	case DEBUG_WAITS:
		return "waits for a grace period";
	case DEBUG_BUSY:
		return "being freed";
	case DEBUG_RESTS:
		return "free, in quarantine";
	case DEBUG_LEAKED:
		return "kept out of use";
	default:
		return "unknown";
	}
}

const char *debug_what_of_double(uint32_t state)
{
	return state == DEBUG_WAITS ? "Object waits for a grace period" : "Object already free";
}

const char *debug_advice_of_double(uint32_t state)
{
	return state == DEBUG_WAITS ? "kfree_rcu() already frees it: remove one of the two calls"
				    : "look for two owners that both free it";
}

/* Describes the object that contains the pointer. */
void debug_tell_object(struct os_long *report, const struct debug_fault *fault)
{
	const struct slab_cache *cache = fault->holder;
	const void *object = fault->object;
	struct slab *slab = page_slab(object);
	uint64_t state = os_load_relaxed(&slab->state);
	size_t size = cache->extra ? debug_size(cache, object) : cache->object_size;
	struct debug_bytes bytes;

	if (fault->pointer != object) {
		os_long_add(report, "%p is ", fault->pointer);
		debug_tell_place(report, fault->pointer, object, size);
		os_long_add(report, " an object\n");
	}
	os_long_add(report, "Slab %p objects=%u used=%u\n", (void *)page_address(slab),
		    slab_order_of(cache, state).objects, slab_inuse(state));
	if (!cache->extra) {
		os_long_add(report, "Object %p @cache=%s size=%zu\n", object, cache->name, size);
		return;
	}
	os_long_add(report, "Object %p @cache=%s size=%zu, %s\n", object, cache->name, size,
		    debug_state_name(os_load_acquire(&debug_head(cache, object)->state)));
	track_print(report, debug_track(cache, object, DEBUG_ALLOCATED), "Allocated");
	track_print(report, debug_track(cache, object, DEBUG_FREED), "Freed");
	bytes = bytes_of(fault);
	debug_dump(report, &bytes);
}

bool debug_has_object(const struct debug_fault *fault)
{
	struct slab *slab = fault->object ? page_slab(fault->object) : NULL;

	return slab && os_load_acquire(&slab->cache) == fault->holder &&
	       (!fault->holder->extra ||
		slab_is_prepared(fault->holder, slab,
				 slab_index(fault->holder, slab, fault->object)));
}

struct os_long *debug_begin(const char *name, const char *what)
{
	struct os_long *report = os_long_begin(name, what);

	os_long_add(report, LINE "\nlibsheaf: BUG %s: %s\n" THIN "\n", name, what);
	return report;
}

void debug_tell_finder(struct os_long *report, const char *call, const char *name,
		       const void *pointer)
{
	struct debug_track now;

	track_now(&now);
	os_long_add(report, "Found by %s(%s, %p) in thread %u on CPU %u%s\n", call, name, pointer,
		    now.thread, now.cpu, now.n ? ":" : "");
	os_long_stack(report, now.ip, now.n);
}

void debug_report(const struct debug_fault *fault)
{
	struct os_long *report = debug_begin(fault->cache->name, fault->what);
	bool has_object = debug_has_object(fault);

	if (!report)
		return;
	tools_look(true);
	if (fault->from) {
		struct debug_bytes bytes = bytes_of(fault);

		debug_tell_wrong(report, &bytes);
	}
	if (fault->holder && fault->holder != fault->cache)
		os_long_add(report, "%p belongs to %s, not to %s\n", fault->pointer,
			    fault->holder->name, fault->cache->name);
	else if (!fault->holder)
		os_long_add(report, "%p is in no object\n", fault->pointer);
	if (has_object)
		debug_tell_object(report, fault);
	tools_look(false);
	debug_tell_finder(report, fault->call, fault->cache->name, fault->pointer);
	os_long_add(report, "FIX %s: %s\n", fault->cache->name, fault->fix);
	os_long_add(report, "TRY %s: %s%s\n", fault->cache->name, fault->advice,
		    !has_object || debug_of(fault->cache)->flags & SLAB_STORE_USER
			    ? ""
			    : "; slab_debug with U shows who allocated and freed it");
	os_long_end(report);
}
