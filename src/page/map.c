/* SPDX-License-Identifier: MIT */
/* Mappings and their registry; see map.h. */
#include "page/map.h"

#include <stdint.h>
#include <string.h>

#include "os/lock.h"
#include "os/machine.h"
#include "os/memory.h"

static struct {
	struct os_lock lock;
	struct mapping *at;
	size_t n, room; /* entries */
	size_t bytes;
} maps = {.lock = OS_LOCK_INIT(OS_RANK_MAPS)};

/* How many blocks begin at or below this address. */
static size_t upper_bound(const char *address)
{
	size_t low = 0, high = maps.n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (maps.at[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Room for one more: twice the room, in other pages. */
static bool make_room(void)
{
	size_t old = maps.room * sizeof(*maps.at), size = old ? 2 * old : OS_PAGE;
	struct mapping *at;

	if (maps.n < maps.room)
		return true;
	at = os_reserve(size);
	if (!at)
		return false;
	if (!os_commit(at, size)) {
		os_unreserve(at, size);
		return false;
	}
	if (old) {
		memcpy(at, maps.at, old);
		os_unreserve(maps.at, old);
	}
	maps.at = at;
	maps.room = size / sizeof(*at);
	return true;
}

static bool insert(char *address, size_t size)
{
	bool done;

	os_lock(&maps.lock);
	done = make_room();
	if (done) {
		size_t i = upper_bound(address);

		memmove(maps.at + i + 1, maps.at + i, (maps.n - i) * sizeof(*maps.at));
		maps.at[i] = (struct mapping){address, size};
		maps.n++;
		maps.bytes += size;
	}
	os_unlock(&maps.lock);
	return done;
}

/* Reserved addresses of this alignment: what lies beside them goes back. */
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

void *map_alloc(size_t size, size_t align, unsigned int node)
{
	char *address;

	size = (size + OS_PAGE - 1) & ~(OS_PAGE - 1);
	address = reserve_aligned(size, align);
	if (!address)
		return NULL;
	if (os.nr_nodes > 1)
		os_prefer_node(address, size, node);
	if (os_commit(address, size) && insert(address, size))
		return address;
	os_unreserve(address, size);
	return NULL;
}

struct mapping map_find(const void *address)
{
	struct mapping found = {NULL, 0};
	size_t i;

	os_lock(&maps.lock);
	i = upper_bound(address);
	if (i && (const char *)address < maps.at[i - 1].address + maps.at[i - 1].size)
		found = maps.at[i - 1];
	os_unlock(&maps.lock);
	return found;
}

bool map_free(void *address)
{
	size_t i, size = 0;

	os_lock(&maps.lock);
	i = upper_bound(address);
	if (i && maps.at[i - 1].address == address) {
		size = maps.at[i - 1].size;
		memmove(maps.at + i - 1, maps.at + i, (maps.n - i) * sizeof(*maps.at));
		maps.n--;
		maps.bytes -= size;
	}
	os_unlock(&maps.lock);
	if (size)
		os_unreserve(address, size);
	return size;
}

size_t map_bytes(void)
{
	size_t bytes;

	os_lock(&maps.lock);
	bytes = maps.bytes;
	os_unlock(&maps.lock);
	return bytes;
}

void map_lock(void)
{
	os_lock(&maps.lock);
}

void map_unlock(void)
{
	os_unlock(&maps.lock);
}
