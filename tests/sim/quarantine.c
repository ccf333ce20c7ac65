/* SPDX-License-Identifier: MIT */
/*
 * The quarantine (slab_debug=Q): on any schedule, it never holds more than its bytes, no object has
 * two owners (QUARANTINE-Q2), a cache can be destroyed while others release its objects, and
 * nothing is lost.
 */
#include "cache/cache.h"
#include "os/machine.h"
#include "sim/sim.h"

enum {
	SEEDS = 60,
	FIBRES = 6,
	ROUNDS = 40,
	HELD = 4,
	CACHES = 2,
	BYTES = 1 << 20, /* slab_quarantine=1 */
};

static const size_t sizes[CACHES] = {60000, 9000};
static const char *const names[] = {"large", "small", "a", "b", "c", "d", "e", "f"};
static struct kmem_cache *s[CACHES];

static void check_bound(void)
{
	size_t bytes = 0;

	for (int i = 0; i < CACHES; i++)
		bytes += debug_of(&s[i]->sheaf.slab)->resting * (size_t)s[i]->sheaf.slab.size;
	if (bytes > BYTES)
		sim_fail("%zu bytes rest", bytes);
}

/* Its owner's number is in it. */
static unsigned int *take(struct kmem_cache *from, unsigned int fibre)
{
	unsigned int *object = kmem_cache_alloc(from, GFP_NOWAIT);

	if (object)
		*object = fibre;
	return object;
}

static void give(struct kmem_cache *to, unsigned int *object, unsigned int fibre)
{
	if (!object)
		return;
	if (*object != fibre)
		sim_fail("an object of fibre %u belongs to %u", fibre, *object);
	if (sim_below(4))
		kmem_cache_free(to, object);
	else
		kmem_cache_free_nolock(to, object);
	check_bound();
}

static void brief_cache(unsigned int fibre)
{
	struct kmem_cache *own = kmem_cache_create(names[CACHES + fibre], 3000, NULL, 0);

	for (int i = 0; own && i < HELD; i++)
		give(own, take(own, fibre), fibre);
	if (own && sim_below(2) && kmem_cache_verify(own) > 0)
		sim_fail("a fault in a quiet cache");
	kmem_cache_destroy(own);
}

static void use(unsigned int fibre, void *unused)
{
	unsigned int *held[HELD] = {NULL};

	(void)unused;
	for (int round = 0; round < ROUNDS; round++) {
		unsigned int at = sim_below(HELD);
		struct kmem_cache *of = s[at % CACHES];

		if (held[at])
			give(of, held[at], fibre), held[at] = NULL;
		else
			held[at] = take(of, fibre);
		if (round % 16 == 0)
			brief_cache(fibre);
		if (!sim_below(30))
			kmem_cache_shrink(of);
	}
	for (int i = 0; i < HELD; i++)
		give(s[i % CACHES], held[i], fibre);
}

static int storm(void *data)
{
	struct sim_config *config = data;
	size_t bytes = 0;

	config->nodes = 1 + config->seed % 2;
	sim_start(config);
	for (int i = 0; i < CACHES; i++)
		s[i] = kmem_cache_create(names[i], sizes[i], NULL, 0);
	if (!s[0] || !s[1])
		sim_fail("no memory");
	sim_faults(true);
	sim_run(FIBRES, use, NULL);
	sim_faults(false);
	for (int i = 0; i < CACHES; i++)
		bytes += quarantine_count(&s[i]->sheaf.slab) * (size_t)s[i]->sheaf.slab.size;
	if (bytes != quarantine_bytes())
		sim_fail("%zu bytes rest, and %zu are reserved", bytes, quarantine_bytes());
	for (int i = 0; i < CACHES; i++)
		if (kmem_cache_verify(s[i]) || kmem_cache_shrink(s[i]))
			sim_fail("an object is missing");
	return quarantine_bytes() != 0;
}

int main(void)
{
	struct sim_config config = {.cpus = 4,
				    .backend = OS_BACKEND_RSEQ,
				    .options = "slab_debug=FQ;slab_quarantine=1",
				    .migration = SIM_ALWAYS / 64,
				    .no_memory = SIM_ALWAYS / 16,
				    .silent = true,
				    .max_steps = UINT64_MAX};

	return sim_first_seeds(storm, config, SEEDS);
}
