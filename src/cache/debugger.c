/* SPDX-License-Identifier: MIT */
/*
 * For debuggers: what tools/gdb/ needs besides debug data. Numbers, because debug data has no
 * macros; addresses of the library's variables, because a program may have variables with the same
 * names; and types that none of these variables refers to. A core file contains all of this. The
 * library itself never reads it.
 */
#include "cache/block.h"
#include "debug/guard_slot.h"
#include "page/object_marks.h"
#include "page/range.h"
#include "percpu/barn/barn.h"
#include "percpu/rows.h"
#include "rcu/rcu_free.h"

#define NUMBERS(NUMBER)                                                                            \
	NUMBER(page_shift, OS_PAGE_SHIFT)                                                          \
	NUMBER(huge_shift, OS_HUGE_SHIFT)                                                          \
	NUMBER(page_words, PAGE_WORDS)                                                             \
	NUMBER(map_leaf_bits, MAP_LEAF_BITS)                                                       \
	NUMBER(map_head, MAP_HEAD)                                                                 \
	NUMBER(map_owned, MAP_OWNED)                                                               \
	NUMBER(mark_shift, MARK_SHIFT)                                                             \
	NUMBER(mark_free, MARK_FREE)                                                               \
	NUMBER(mark_used, MARK_USED)                                                               \
	NUMBER(mark_waits, MARK_WAITS)                                                             \
	NUMBER(slab_tail, SLAB_TAIL)                                                               \
	NUMBER(slab_small, SLAB_SMALL)                                                             \
	NUMBER(slab_listed, SLAB_LISTED)                                                           \
	NUMBER(slab_held, SLAB_HELD)                                                               \
	NUMBER(slab_count_bits, SLAB_COUNT_BITS)                                                   \
	NUMBER(row_shift, ROW_SHIFT)                                                               \
	NUMBER(remote_sheaves, SLOT_REMOTE)                                                        \
	NUMBER(rseq_cpu_id, RSEQ_CPU_ID)                                                           \
	NUMBER(sheaf_size, SHEAF_SIZE)                                                             \
	NUMBER(cell_full, BARN_FULL)                                                               \
	NUMBER(cell_transit, BARN_TRANSIT)                                                         \
	NUMBER(cell_tags, BARN_TAGS)                                                               \
	NUMBER(cache_checked, CACHE_DEBUG)                                                         \
	NUMBER(cache_marked, CACHE_MARKED)                                                         \
	NUMBER(switched_letters, DEBUG_SWITCHED)                                                   \
	NUMBER(guard_slots, GUARD_SLOTS)

#define FIELD(name, value)		    uint64_t name;
#define VALUE(name, value)		    .name = (value),
#define STATE_FIELD(name, value, words)	    uint64_t state_##name;
#define STATE_VALUE(name, value, words)	    .state_##name = DEBUG_##name,
#define LETTER_FIELD(letter, flag, meaning) uint64_t letter_##letter;
#define LETTER_VALUE(letter, flag, meaning) .letter_##letter = (flag),

static __attribute__((used)) const struct {
	struct {
		NUMBERS(FIELD)
		DEBUG_STATES(STATE_FIELD)
		OS_DEBUG_LETTERS(LETTER_FIELD)
	} numbers;
	const struct caches *caches;
	const struct pages *pages;
	const struct range *ranges;
	const struct os_machine *os;
	const struct sheaf *bootstrap;
	const struct guard_range *guards;
	struct {
		const struct slot *slot;
		const struct sheaf_rcu *sheaf_rcu;
		const struct debug_cache *debug_cache;
		const struct debug_head *debug_head;
		const struct debug_track *debug_track;
		const struct guard_slot *guard_slot;
		const struct guard_notes *guard_notes;
	} types;
} sheaf_for_debuggers = {
	.numbers = {NUMBERS(VALUE) DEBUG_STATES(STATE_VALUE) OS_DEBUG_LETTERS(LETTER_VALUE)},
	.caches = &caches,
	.pages = &pages,
	.ranges = ranges,
	.os = &os,
	.bootstrap = &sheaf_bootstrap,
	.guards = &guard_range,
};
