/* SPDX-License-Identifier: MIT */
#include "kit/hooks.h"

#include "cache/block.h"
#include "cache/cache.h"
#include "cache/list.h"
#include "cache/process.h"
#include "debug/sample.h"
#include "group/group.h"
#include "group/stock.h"
#include "os/enter_program.h"
#include "os/machine.h"
#include "os/report/report.h"
#include "os/section.h"
#include "os/should_fail.h"
#include "page/page.h"
#include "page/pool.h"
#include "percpu/rows.h"

void hook_forget_misuse(void)
{
	os_misuse_forget();
	groups.reported_left = 0;
}

unsigned int hook_reports(void)
{
	return os_reports;
}

bool hook_in_program(void)
{
	return os_in_program();
}

void hook_use_up_pool(size_t size)
{
	while (pool_alloc(size))
		;
}

void hook_keep_slabs(struct kmem_cache *s, unsigned int n)
{
	s->sheaf.slab.min_partial = n;
}

size_t hook_reserved(void)
{
	return pages.size;
}

void hook_drain_stock(struct kmem_group *g)
{
	stock_drain(g);
}

void hook_seed_samples(uint64_t seed)
{
	if (caches_ready())
		sample_seed(seed);
}

struct kmem_cache *hook_cache_of(const void *block)
{
	return block_of(block).cache;
}

struct kmem_cache *hook_next_of_kmalloc(const struct kmem_cache *s)
{
	struct kmem_cache *next = s ? s->next : caches.first;

	while (next && !(next->flags & CACHE_KMALLOC))
		next = next->next;
	return next;
}

void hook_fail_by(bool (*fail)(const char *point))
{
	os_store_relaxed(&os_fail_by, fail);
}

bool hook_is_registered(void)
{
	return os.backend == OS_BACKEND_RSEQ && os_registered();
}

bool hook_closed_rows_are_empty(void)
{
	return !sheaf_bootstrap.size;
}

bool hook_has_tools(void)
{
	return os.tools;
}

void hook_leave_tools(void)
{
	os_init(); /* It looks for tools. */
	os.tools = 0;
}
