/* SPDX-License-Identifier: MIT */
/* Mappings and the table of them; see map.h. */
#include "page/map.h"

#include <stdint.h>
#include <string.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/memory_tools.h"
#include "page/map_kept.h"
#include "page/range.h"

#define ADDRESS_BITS 48 /* the system gives no address beyond, unless a call asks for it */
#define LEAF_ENTRIES ((uintptr_t)1 << MAP_LEAF_BITS)
#define LEAF_BYTES   (LEAF_ENTRIES * (sizeof(uintptr_t) + sizeof(uint32_t)))
#define NR_LEAVES    ((uintptr_t)1 << (ADDRESS_BITS - OS_HUGE_SHIFT - MAP_LEAF_BITS))

static uintptr_t *map_leaves[NR_LEAVES] OS_LARGE;

#define NODE_SHIFT  4
#define FLAGS	    ((uintptr_t)OS_PAGE - 1)
#define OWNER_SHIFT 32

_Static_assert((OS_MAX_NODES - 1) << NODE_SHIFT < OS_PAGE, "a node fits below a size");

/* The bytes of the block with this first entry. */
static size_t map_size_of(uintptr_t entry)
{
	return (entry & MAP_OWNED ? (uint32_t)entry : entry) & ~FLAGS;
}

/* The node of its memory. */
static unsigned int map_node_of(uintptr_t entry)
{
	return (entry & FLAGS) >> NODE_SHIFT;
}

/* The number of the entry for this address. */
static uintptr_t number_of(const void *address)
{
	return (uintptr_t)address >> OS_HUGE_SHIFT;
}

/* The address of the entry; NULL if there is no leaf for it. */
static uintptr_t *entry_at(uintptr_t number)
{
	uintptr_t leaf = number >> MAP_LEAF_BITS, *entries;

	if (leaf >= NR_LEAVES)
		return NULL;
	entries = os_load_acquire(&map_leaves[leaf]);
	return entries ? &entries[number % LEAF_ENTRIES] : NULL;
}

static uintptr_t read_entry(uintptr_t number)
{
	uintptr_t *entry = entry_at(number);

	return entry ? os_load_acquire(entry) : 0;
}

/* From the system, not from a pool: this takes no lock. */
static bool make_leaf(uintptr_t leaf)
{
	uintptr_t *none = NULL, *entries;

	if (leaf >= NR_LEAVES)
		return false;
	if (os_load_acquire(&map_leaves[leaf]))
		return true;
	entries = os_map_anywhere(LEAF_BYTES, true);
	if (!entries)
		return false;
	if (!os_cmpxchg(&map_leaves[leaf], &none, entries))
		os_unreserve(entries, LEAF_BYTES);
	return true;
}

static bool make_leaves(const char *address, size_t size)
{
	uintptr_t last = number_of(address + size - 1) >> MAP_LEAF_BITS;

	for (uintptr_t leaf = number_of(address) >> MAP_LEAF_BITS; leaf <= last; leaf++)
		if (!make_leaf(leaf))
			return false;
	return true;
}

/* The first entry is written last: a thread that finds it may free the block. */
static void enter_first(const char *address, size_t size, unsigned int node)
{
	uintptr_t *first = entry_at(number_of(address));

	tools_hold(address, size);
	/* MAP-G1, MAP-G3, MAP_KEPT-J1: the addresses are the caller's: no block begins here. */
	os_assert(!(os_peek(first) & MAP_HEAD));
	os_store_release(first, size | node << NODE_SHIFT | MAP_HEAD);
}

static void enter_block(const char *address, size_t size, unsigned int node)
{
	uintptr_t first = number_of(address), n = number_of(address + size - 1) - first + 1;

	for (uintptr_t i = 1; i < n; i++)
		os_store_relaxed(entry_at(first + i), i << 1);
	enter_first(address, size, node);
}

/* Reserve addresses with this alignment; return those before and after them. */
static char *reserve_aligned(size_t size, size_t align)
{
	size_t more = align > OS_HUGE ? align : 0, before;
	char *address = os_reserve(size + more);

	if (!address || !more)
		return address;
	before = -(uintptr_t)address & (align - 1);
	if (before)
		os_unreserve(address, before);
	os_unreserve(address + before + size, more - before);
	return address + before;
}

/* As map_alloc(), from the system. */
static void *map_new(size_t size, size_t align, unsigned int node)
{
	char *address;

	if (!page_hold(size >> OS_PAGE_SHIFT))
		return NULL;
	address = reserve_aligned(size, align);
	if (address && os.nr_nodes > 1)
		os_prefer_node(address, size, node);
	if (address && (!make_leaves(address, size) || !os_commit(address, size))) {
		os_unreserve(address, size);
		address = NULL;
	}
	if (!address) {
		page_hold_less(size >> OS_PAGE_SHIFT);
		return NULL;
	}
	/* In this order, so that a child forked in between never counts below 0. */
	os_fetch_add_relaxed(&ranges[node].mapped, size);
	show_mapped();
	enter_block(address, size, node);
	return address;
}

struct mapping map_reuse(size_t size, size_t align, unsigned int node)
{
	struct mapping kept = map_take_kept(size, align, node, false);

	if (kept.address) {
		show_mapped();
		enter_first(kept.address, kept.size, node);
	}
	return kept;
}

void map_clear(char *from, size_t size)
{
	if (size <= MAP_CLEAR_MOST || !os_discard(from, size, false))
		memset(from, 0, size);
}

struct mapping map_find(const void *address)
{
	uintptr_t number = number_of(address), entry = read_entry(number), offset;

	if (entry && !(entry & MAP_HEAD)) {
		number -= (uint32_t)entry >> 1;
		entry = read_entry(number);
	}
	offset = (uintptr_t)address - (number << OS_HUGE_SHIFT);
	if (!(entry & MAP_HEAD) || offset >= map_size_of(entry))
		return (struct mapping){NULL, 0};
	return (struct mapping){(char *)(number << OS_HUGE_SHIFT), map_size_of(entry)};
}

static bool entry_is_used(uintptr_t entry)
{
	return (entry & (MAP_HEAD | MAP_WAITS)) == MAP_HEAD;
}

bool map_retire(void *address)
{
	uintptr_t *first = entry_at(number_of(address)), entry = first ? os_load_acquire(first) : 0;

	return (uintptr_t)address % OS_HUGE == 0 && entry_is_used(entry) &&
	       os_cmpxchg(first, &entry, entry | MAP_WAITS);
}

bool map_waits(const void *address)
{
	uintptr_t entry = read_entry(number_of(address));

	return (uintptr_t)address % OS_HUGE == 0 && entry & MAP_HEAD && !entry_is_used(entry);
}

void map_free_retired(void *address)
{
	uintptr_t *first = entry_at(number_of(address)), entry = os_load_acquire(first);
	size_t size = map_size_of(entry);
	struct mapping block = {address, size};

	os_assert((entry & MAP_HEAD) && (entry & MAP_WAITS)); /* MAP-G1 */
	os_store_release(first, 0);
	tools_hold_no_more(address, size);
	if (!map_keep(block, map_node_of(entry)))
		map_unmap(block, map_node_of(entry));
	show_mapped();
}

/* Below the hard limit, blocks that wait make room. */
static bool hold_more(size_t size)
{
	return page_hold(size >> OS_PAGE_SHIFT) ||
	       (map_trim(size) && page_hold(size >> OS_PAGE_SHIFT));
}

/* Move the block to other addresses, unless they are limited (ulimit -v), and a refusal might lose
 * some. NULL: it stays. */
static void *map_move(char *address, size_t old, size_t size, size_t align)
{
	bool limited = os_address_limit() < os_addresses();
	char *to = limited ? NULL : reserve_aligned(size, align);

	if (!to)
		return NULL;
	if (!make_leaves(to, size)) {
		os_unreserve(to, size);
		return NULL;
	}
	return os_move(address, old, to, size) ? to : NULL;
}

static void count_bytes(size_t old, size_t size, unsigned int node)
{
	os_fetch_add_relaxed(&ranges[node].mapped, size - old);
	if (size < old)
		page_hold_less((old - size) >> OS_PAGE_SHIFT);
	show_mapped();
}

/* As map_alloc(), from a block that waits and is too small: its pages need no faults again. */
static void *map_grow_kept(size_t size, size_t align, unsigned int node, bool zero)
{
	uint32_t *returning;
	struct mapping kept;
	char *to = NULL;
	size_t more;

	if (zero && size > MAP_CLEAR_MOST) /* its pages would go */
		return NULL;
	returning = page_begin_return(); /* others do not find it */
	kept = map_take_kept(size, align, node, true);
	more = size - kept.size;
	if (kept.address && page_hold(more >> OS_PAGE_SHIFT)) {
		to = map_move(kept.address, kept.size, size, align);
		if (!to)
			page_hold_less(more >> OS_PAGE_SHIFT);
	}
	if (to) {
		if (zero)
			map_clear(to, kept.size);
		count_bytes(kept.size, size, node);
		enter_block(to, size, node);
	} else if (kept.address) {
		map_unmap(kept, node);
	}
	page_end_return(returning);
	return to;
}

void *map_alloc(size_t size, size_t align, unsigned int node, bool zero)
{
	struct mapping kept;
	char *block;

	size = os_round_up(size);
	kept = map_reuse(size, align, node);
	block = kept.address;
	/* All of it: the program may grow the block in place. */
	if (block && zero)
		map_clear(block, kept.size);
	if (!block)
		block = map_grow_kept(size, align, node, zero);
	if (!block)
		block = map_new(size, align, node);
	/* Blocks that wait make room: of the hard limit, or of the system's. */
	return !block && map_trim(size) ? map_new(size, align, node) : block;
}

void *map_resize(void *address, size_t size, size_t align)
{
	uintptr_t first = number_of(address), entry = read_entry(first);
	size_t old = map_size_of(entry), more;
	char *now = address;

	size = os_round_up(size);
	if (os.tools || !entry_is_used(entry) || entry & (MAP_OWNED | MAP_OWNED_BELOW))
		return NULL;
	more = size > old ? size - old : 0;
	if (more && !hold_more(more))
		return NULL;
	if (!os_cmpxchg(entry_at(first), &entry, 0)) {
		/* Another thread frees it: a misuse, which its own call or the caller's reports. */
		now = NULL;
	} else if (more) {
		now = map_move(address, old, size, align);
		if (!now)
			os_store_release(entry_at(first), entry);
	} else {
		os_assert(size < old); /* callers have asked for another size */
		os_unreserve(now + size, old - size);
	}
	if (!now) {
		page_hold_less(more >> OS_PAGE_SHIFT);
		return NULL;
	}
	tools_hold_no_more(address, old);
	count_bytes(old, size, map_node_of(entry));
	enter_block(now, size, map_node_of(entry));
	return now;
}

void map_unmap(struct mapping block, unsigned int node)
{
	os_fetch_sub(&ranges[node].mapped, block.size);
	page_hold_less(block.size >> OS_PAGE_SHIFT);
	os_unreserve(block.address, block.size);
}

uint32_t *map_word(const void *address)
{
	uintptr_t number = number_of(address), *entry = entry_at(number);

	if (!entry || (uintptr_t)address % OS_HUGE || !(os_load_acquire(entry) & MAP_HEAD))
		return NULL;
	/* Behind the entries of the leaf. */
	entry += LEAF_ENTRIES - number % LEAF_ENTRIES;
	return (uint32_t *)entry + number % LEAF_ENTRIES;
}

/* --- owners ----------------------------------------------------------------------------------- */

static uint32_t map_owner_of(uintptr_t number, uintptr_t entry)
{
	if (entry & MAP_HEAD && entry & MAP_OWNED_BELOW)
		entry = read_entry(number + 1);
	else if (!(entry & MAP_HEAD && entry & MAP_OWNED))
		return 0;
	return (uint32_t)(entry >> OWNER_SHIFT);
}

uint32_t map_owner(const void *address)
{
	uintptr_t number = number_of(address);

	return map_owner_of(number, read_entry(number));
}

void map_set_owner(void *address, uint32_t owner)
{
	uintptr_t number = number_of(address), entry = read_entry(number);
	uintptr_t upper = (uintptr_t)owner << OWNER_SHIFT;

	if (entry >> OWNER_SHIFT) {
		os_store_relaxed(entry_at(number + 1), upper | (uint32_t)read_entry(number + 1));
		os_store_release(entry_at(number), entry | MAP_OWNED_BELOW);
	} else {
		os_store_release(entry_at(number), upper | entry | MAP_OWNED);
	}
}

static void look_at_leaf(uintptr_t leaf, map_look *look, void *data)
{
	for (uintptr_t i = 0; i < LEAF_ENTRIES; i++) {
		uintptr_t number = (leaf << MAP_LEAF_BITS) + i, entry = read_entry(number);
		uint32_t owner = map_owner_of(number, entry);

		if (owner)
			look(data, (const void *)(number << OS_HUGE_SHIFT), map_size_of(entry),
			     owner);
	}
}

void map_for_each_owned(map_look *look, void *data)
{
	for (uintptr_t leaf = 0; leaf < NR_LEAVES; leaf++)
		if (os_load_acquire(&map_leaves[leaf]))
			look_at_leaf(leaf, look, data);
}
