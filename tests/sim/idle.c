/* SPDX-License-Identifier: MIT */
/*
 * Unused memory is returned within ten seconds, also with thousands of caches, or with
 * hundreds of CPUs, and while another CPU works for a moment twice a second, so that its row
 * becomes idle again and again. One CPU calls slow paths; time passes by hand. The caches of an
 * idle row share their pairs of membarriers.
 */
#include <stdint.h>
#include <stdio.h>

#include "cache/cache.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "page/decay.h"
#include "page/limit.h"
#include "percpu/barn/barn.h"
#include "percpu/rows.h"
#include "sim/sim.h"

enum {
	ALL_MS = 10000, /* for everything, also of thousands of caches or on hundreds of CPUs */
	ROW_MS = 1500,	/* for a row */
	OFTEN = 550,	/* ms; a row is idle after 500 */
	FEW = 8,	/* objects of a cache on a CPU */
	BATCH = 2000,	/* calls slow paths */
	MOST_CACHES = 4000,
	A_CALL = 8192, /* objects that one call returns */
};

static struct kmem_cache *busy, *idle[MOST_CACHES];
static unsigned int caches_made, now_ms = 1000, barriers;

uint32_t __wrap_os_now_ms(void);
bool __real_os_membarrier(void);
bool __wrap_os_membarrier(void);

uint32_t __wrap_os_now_ms(void)
{
	return now_ms;
}

bool __wrap_os_membarrier(void)
{
	barriers++;
	return __real_os_membarrier();
}

static void use(struct kmem_cache *s, unsigned int n)
{
	void *objects[BATCH];

	for (unsigned int i = 0; i < n; i++)
		if (!(objects[i] = kmem_cache_alloc(s, GFP_KERNEL)))
			sim_fail("no memory");
	for (unsigned int i = 0; i < n; i++)
		kmem_cache_free(s, objects[i]);
}

static struct kmem_cache *make(const char *name, unsigned int size)
{
	struct kmem_cache *s = kmem_cache_create(name, size, NULL, SLAB_NO_MERGE);

	if (!s)
		sim_fail("%s cannot be made", name);
	return s;
}

static size_t bytes_of_idle(void)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < caches_made; i++)
		bytes += slab_held_bytes(&idle[i]->sheaf.slab);
	return bytes;
}

static unsigned int rows_with_sheaves(unsigned int row)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < caches_made; i++)
		n += slot_of_row(idle[i]->sheaf.at.handle, row)->main != &sheaf_bootstrap;
	return n;
}

/* CPU 0 works, and with `often` the last CPU for a moment; until nothing is left of what `left`
 * counts. Returns the time in ms. */
static unsigned int until_gone(size_t (*left)(void), unsigned int most, bool often)
{
	unsigned int ms = 0, next = OFTEN;

	for (; left() && ms <= most; ms += DECAY_TICK_MS) {
		if (often && ms >= next) {
			sim_go_to(os.nr_cpus - 1);
			use(busy, BATCH / 10);
			sim_go_to(0);
			next += OFTEN;
		}
		now_ms += DECAY_TICK_MS;
		use(busy, BATCH);
	}
	return ms;
}

static void use_all(unsigned int first_cpu, unsigned int objects)
{
	for (unsigned int cpu = first_cpu; cpu < os.nr_cpus; cpu++) {
		sim_go_to(cpu);
		for (unsigned int i = 0; i < caches_made; i++)
			use(idle[i], objects);
	}
	sim_go_to(0);
}

static void make_all(unsigned int n)
{
	char name[16];

	busy = make("busy", 64);
	kmem_cache_set_sheaf_capacity(busy, 60);
	for (unsigned int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "idle-%u", i);
		idle[i] = make(name, 256);
	}
	caches_made = n;
	sim_go_to(0);
	use(busy, BATCH);
}

static void check_time(const char *what, unsigned int took, unsigned int most)
{
	printf("%u CPUs, %u caches: %s is gone after %u ms\n", os.nr_cpus, caches_made, what, took);
	fflush(stdout);
	if (took > most)
		sim_fail("%s takes more than %u ms", what, most);
}

static size_t last_row(void)
{
	return rows_with_sheaves(os.nr_cpus - 1);
}

/* One row, and its membarriers: two for each call that returns objects. */
static void check_row(void)
{
	unsigned int calls = caches_made * 2 * 28 / A_CALL + 1;

	use_all(os.nr_cpus - 1, FEW);
	barriers = 0;
	check_time("an idle row", until_gone(last_row, ROW_MS, false), ROW_MS);
	printf("%u membarriers\n", barriers);
	fflush(stdout);
	if (barriers > 4 * calls)
		sim_fail("more than %u", 4 * calls);
}

static int run(void *data)
{
	const struct sim_config *config = data;

	sim_start(config);
	make_all(config->cpus > 2 ? 200 : MOST_CACHES);
	check_row();
	use_all(0, FEW);
	check_time("all", until_gone(bytes_of_idle, ALL_MS, true), ALL_MS);
	use_all(0, FEW);
	page_set_limits(OS_PAGE, 0);
	check_time("all above the soft limit", until_gone(bytes_of_idle, ALL_MS, true), ALL_MS);
	page_set_limits(0, 0);
	for (unsigned int i = 0; i < caches_made; i++)
		if (kmem_cache_verify(idle[i]))
			sim_fail("cache %u is not in order", i);
	return 0;
}

static void keep_one(void)
{
	if (!kmem_cache_alloc(busy, GFP_KERNEL))
		sim_fail("no memory");
}

/* Of a cache in use, this CPU keeps a sheaf of an idle row in its own node. */
static int run_in_use(void *data)
{
	const struct sim_config *config = data;
	const struct slot *slot;
	uintptr_t cell;

	sim_start(config);
	make_all(0);
	os_options.decay_never = 1; /* the cache is used in pairs, so it would look idle */
	sim_go_to(config->cpus - 1);
	/* The second one from the sheaf that the first one left. */
	keep_one();
	keep_one();
	slot = slot_of_row(busy->sheaf.at.handle, os_row());
	sim_go_to(0);
	for (unsigned int ms = 0; slot->main != &sheaf_bootstrap; ms += DECAY_TICK_MS) {
		if (ms > ROW_MS)
			sim_fail("the row is still not idle");
		now_ms += DECAY_TICK_MS;
		use(busy, BATCH / 10);
	}
	cell = os_load_relaxed(barn_partial_cell(&busy->sheaf, 0));
	if ((cell != 0) != (config->nodes == 1))
		sim_fail("%u nodes, and the partial sheaf is %#lx", config->nodes,
			 (unsigned long)cell);
	return 0;
}

int main(void)
{
	struct sim_config config = {.seed = 1, .silent = true, .max_steps = UINT64_MAX};
	uint64_t hash;
	int failed = 0;

	for (config.backend = OS_BACKEND_TRYLOCK; config.backend <= OS_BACKEND_RSEQ;
	     config.backend++) {
		config.cpus = 2;
		config.nodes = 1;
		failed += sim_in_child(run, &config, &hash) != 0;
		failed += sim_in_child(run_in_use, &config, &hash) != 0;
		config.nodes = 2;
		failed += sim_in_child(run_in_use, &config, &hash) != 0;
		config.cpus = 384;
		config.nodes = 4;
		failed += sim_in_child(run, &config, &hash) != 0;
	}
	return failed != 0;
}
