/* SPDX-License-Identifier: MIT */
/*
 * The heap profile's numbers at the peak, on any schedule: a thread that pauses while it counts
 * does not mix in numbers of other times (PROFILE-J3).
 */
#include "cache/cache.h"
#include "sim/sim.h"

enum {
	SEEDS = 100,
	FIBRES = 4,
	CACHES = 8, /* each has a row */
	ROUNDS = 5,
	OBJECTS = 20,
	SIZE = 65536, /* so that each object is a sample */
};

static const char *const names[CACHES] = {"a", "b", "c", "d", "e", "f", "g", "h"};
static struct kmem_cache *s[CACHES];
static unsigned int in_use, most; /* between calls */

static void *take(unsigned int i)
{
	void *object = kmem_cache_alloc(s[i % CACHES], GFP_NOWAIT);

	if (!object)
		sim_fail("no memory");
	in_use++;
	most = most > in_use ? most : in_use;
	return object;
}

static void grow_and_shrink(unsigned int fibre, void *unused)
{
	void *objects[OBJECTS];

	(void)unused;
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < OBJECTS; i++)
			objects[i] = take(fibre + i);
		for (unsigned int i = 0; i < OBJECTS; i++) {
			in_use--;
			kmem_cache_free(s[(fibre + i) % CACHES], objects[i]);
		}
	}
}

static int run(void *data)
{
	uint64_t samples = 0;

	sim_start(data);
	for (unsigned int i = 0; i < CACHES; i++)
		if (!(s[i] = kmem_cache_create(names[i], SIZE - 8 * i, NULL, SLAB_NO_MERGE)))
			sim_fail("the cache cannot be made");
	sim_run(FIBRES, grow_and_shrink, NULL);
	for (struct profile_row *row = profile_next(NULL); row; row = profile_next(row))
		samples += profile_peak(row)->samples;
	if (profile_left_out() || samples + FIBRES < most || samples > FIBRES * OBJECTS)
		sim_fail("%llu samples at the peak, not %u", (unsigned long long)samples, most);
	return 0;
}

int main(void)
{
	struct sim_config config = {.cpus = 4,
				    .nodes = 1,
				    .backend = OS_BACKEND_RSEQ,
				    .options = "profile=4096;slab_guard=64",
				    .silent = true,
				    .max_steps = 10000000};

	return sim_first_seeds(run, config, SEEDS);
}
