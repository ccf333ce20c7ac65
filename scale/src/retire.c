/* SPDX-License-Identifier: MIT */
/* See retire.h. This file is instrumented. */
#include "scale/src/retire.h"

#include <stdint.h>
#include <stdlib.h>

#include "os/machine.h"
#include "scale/src/machine.h"
#include "scale/src/periods.h"
#include "sim/sim.h"

#define PAGE_POINTERS 500u
#define CACHES	      2u /* of a program */

struct page {
	struct page *next;
	void *cache; /* of all its objects */
	uint64_t due;
	unsigned int n;
	void *objects[PAGE_POINTERS];
};

static struct cpu {
	_Alignas(128) struct page *filling[CACHES];
	struct page *first, *last; /* that wait */
	struct page *unused;
} cpus[MACHINE_CPUS];

static struct page *new_page(struct cpu *cpu, void *cache)
{
	struct page *page = cpu->unused;

	if (page)
		cpu->unused = page->next;
	else
		page = aligned_alloc(128, (sizeof(*page) + 127) / 128 * 128);
	if (!page)
		sim_fail("no memory");
	page->cache = cache;
	page->n = 0;
	return page;
}

/* The one of this cache, or a free place. */
static struct page **find_filling(struct cpu *cpu, const void *cache)
{
	for (unsigned int i = 0; i < CACHES; i++)
		if (cpu->filling[i] && cpu->filling[i]->cache == cache)
			return &cpu->filling[i];
	for (unsigned int i = 0; i < CACHES; i++)
		if (!cpu->filling[i])
			return &cpu->filling[i];
	sim_fail("objects of more than %u caches are retired", CACHES);
}

static void wait_for_grace(struct cpu *cpu, struct page *page)
{
	page->due = periods_end();
	page->next = NULL;
	*(cpu->first ? &cpu->last->next : &cpu->first) = page;
	cpu->last = page;
}

void retire(void *cache, void *object,
	    void (*free_objects)(void *cache, void **objects, unsigned int n))
{
	struct cpu *cpu = &cpus[os_cpu()];
	struct page **filling = find_filling(cpu, cache), *page = *filling;

	if (!page)
		page = *filling = new_page(cpu, cache);
	page->objects[page->n++] = object;
	if (page->n < PAGE_POINTERS)
		return;
	*filling = NULL;
	wait_for_grace(cpu, page);
	while ((page = cpu->first) && page->due <= os_now()) {
		cpu->first = page->next;
		free_objects(page->cache, page->objects, page->n);
		page->next = cpu->unused;
		cpu->unused = page;
	}
}
