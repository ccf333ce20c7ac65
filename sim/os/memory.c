/* SPDX-License-Identifier: MIT */
/*
 * Memory of the simulated machine: real mappings, at the same addresses in every run.
 *
 * Reserved addresses can be read here, unlike on the real machine: a section in C continues to read
 * for a moment after it was aborted, while one in assembly has left. Writing to them still crashes.
 *
 * Rows are private mappings of a template file, made by the same code as on Linux, so that the
 * mappings and the pages that use memory (those that the kernel calls anonymous) can be counted.
 */
#include "os/memory.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/atomic.h"
#include "os/counters.h"
#include "os/linux/linux.h"
#include "os/machine.h"
#include "sim/state.h"

#define FIRST_ADDRESS	((uintptr_t)1 << 45)
#define ADDRESS_LIMIT	((size_t)1 << 34)
#define MAX_AREAS	256
#define PAGEMAP_FILE	(UINT64_C(1) << 61)
#define PAGEMAP_PRESENT (UINT64_C(1) << 63)

static uintptr_t next_address = FIRST_ADDRESS;
static char *areas[MAX_AREAS];
static unsigned int nr_areas;

static bool refused(void *address, size_t size)
{
	sim_step(MEMORY, address, size);
	return sim.faults && sim_chance(sim.config.no_memory);
}

static char *map(size_t size, int protection)
{
	size_t whole = (size + OS_HUGE - 1) & ~(OS_HUGE - 1);
	char *address =
		mmap((void *)next_address, size, protection,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (address != (char *)next_address)
		sim_fail("%zu bytes of addresses at %#zx are refused", size, next_address);
	next_address += whole;
	return address;
}

void *os_map_anywhere(size_t size, bool usable)
{
	int protection = usable ? PROT_READ | PROT_WRITE : PROT_READ;

	return refused(NULL, size) ? NULL : map(os_round_up(size), protection);
}

void *os_reserve(size_t size)
{
	return refused(NULL, size) ? NULL : map(os_round_up(size), PROT_READ);
}

void os_unreserve(void *address, size_t size)
{
	munmap(address, os_round_up(size));
}

void os_refusal(char *text, size_t size)
{
	snprintf(text, size, "the simulation refuses it");
}

bool os_allow_reads(void *address, size_t size)
{
	return !refused(address, size);
}

size_t os_addresses(void)
{
	return ADDRESS_LIMIT;
}

size_t os_address_limit(void)
{
	return ADDRESS_LIMIT;
}

bool os_memory_refresh(void)
{
	return false;
}

bool os_commit(void *address, size_t size)
{
	if (refused(address, size))
		return false;
	if (sim.faults && sim.config.memory && sim.committed + size > sim.config.memory)
		return false;
	sim.committed += size;
	size += (uintptr_t)address - os_round_down((uintptr_t)address);
	address = (void *)os_round_down((uintptr_t)address);
	return mprotect(address, os_round_up(size), PROT_READ | PROT_WRITE) == 0;
}

bool os_move(void *from, size_t old, void *to, size_t size)
{
	(void)from, (void)old, (void)to, (void)size;
	return false;
}

bool os_discard(void *address, size_t size, bool locked)
{
	uintptr_t begin = os_round_up((uintptr_t)address);
	uintptr_t end = os_round_down((uintptr_t)address + size);

	if (refused(address, size) && !locked)
		return false;
	if (begin >= end)
		return true;
	madvise((void *)begin, end - begin, MADV_DONTNEED);
	if (sim.config.prices)
		sim.config.prices->discard((void *)begin, end - begin);
	return true;
}

bool os_hide(void *address, size_t size)
{
	return !refused(address, size);
}

void os_unhide(void *address, size_t size)
{
	(void)address, (void)size;
}

void os_advise_huge(void *address, size_t size, bool huge)
{
	(void)address, (void)size, (void)huge;
}

void os_resident(size_t *now, size_t *peak)
{
	*now = *peak = 0;
}

void os_prefer_node(void *address, size_t size, unsigned int node)
{
	(void)address, (void)size, (void)node;
}

char *os_map_rows(unsigned int n, const struct slot *slot, bool *copied)
{
	size_t size = n * os_area_bytes();
	struct template_file template;
	char *rows;

	if (refused(NULL, size))
		return NULL;
	if (nr_areas + n > MAX_AREAS)
		sim_fail("more than %u areas of slots", MAX_AREAS);
	rows = map(size, PROT_READ | PROT_WRITE);
	template_fill(rows, slot);
	template = template_file(rows, size / ROW_BYTES, n);
	if (template.file < 0 || !template_map(&template, rows, size / ROW_BYTES))
		sim_fail("%u areas of slots cannot be mapped", n);
	close(template.file);
	*copied = true;
	/* The CPUs' rows come after the row of no CPU and that of handles. */
	for (unsigned int i = 0; i < n; i++)
		areas[nr_areas++] = rows + i * os_area_bytes() + 2 * ROW_BYTES;
	return rows + ROW_BYTES;
}

/* No other process sees these counts. */
void *os_counters_head(void)
{
	return NULL;
}

bool os_open_counters(char *row)
{
	(void)row;
	return true;
}

unsigned int os_counters_areas(void)
{
	return 0;
}

void os_counters_end(void)
{
}

bool sim_reserved(uintptr_t address)
{
	return address >= FIRST_ADDRESS && address < next_address;
}

bool sim_row(uintptr_t address, unsigned int *row, uintptr_t *begin)
{
	for (unsigned int i = 0; i < nr_areas; i++) {
		uintptr_t area = (uintptr_t)areas[i] - 2 * ROW_BYTES;

		if (address - area >= os_area_bytes())
			continue;
		*row = (unsigned int)((address - area) / ROW_BYTES);
		*begin = area + *row * ROW_BYTES;
		return true;
	}
	return false;
}

size_t sim_row_pages(void)
{
	int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t pages = os.nr_rows * ROW_BYTES / OS_PAGE, own = 0;
	uint64_t entry;

	for (unsigned int area = 0; area < nr_areas; area++)
		for (size_t i = 0; i < pages; i++) {
			uintptr_t page = ((uintptr_t)areas[area] >> OS_PAGE_SHIFT) + i;

			if (pread(file, &entry, sizeof(entry), (off_t)(page * sizeof(entry))) !=
			    sizeof(entry))
				sim_fail("/proc/self/pagemap cannot be read");
			own += (entry & PAGEMAP_PRESENT) && !(entry & PAGEMAP_FILE);
		}
	close(file);
	return own;
}
