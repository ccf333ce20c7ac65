/* SPDX-License-Identifier: MIT */
/*
 * Many caches: what one more costs does not depend on how many there are. Instructions are counted, of a
 * child that is single-stepped.
 */
#include "../../bench/count.h"
#include "cache/cache.h"
#include "cache/index.h"
#include "help.h"
#include "unit.h"

enum {
	FEW = 10,
	MANY = 10000,
	STEPPED = 2,
	LINKS = 3000
};

static struct kmem_cache *made[MANY], *stepped[2 * STEPPED];
static char names[MANY][16];

/* Every other one may be shared, each with a size that no other cache has. */
static bool make_caches(void *number)
{
	unsigned int n = *(unsigned int *)number;

	caches.warned_name = 1;

	for (unsigned int i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "many-%u", i);
		made[i] = kmem_cache_create(names[i], 8 + 8 * i, NULL, i % 2 ? SLAB_NO_MERGE : 0);
		if (!made[i])
			return false;
	}
	return true;
}

/* New ones, and names of old ones; the oldest go, which are the last ones of the list. */
static void make_and_destroy(void *unused)
{
	(void)unused;
	for (unsigned int i = 0; i < STEPPED; i++) {
		stepped[2 * i] = kmem_cache_create(names[i], 72, NULL, SLAB_NO_MERGE);
		stepped[2 * i + 1] = kmem_cache_create("shared", 8 + 16 * i, NULL, 0);
	}
	for (unsigned int i = 0; i < 2 * STEPPED; i++)
		kmem_cache_destroy(stepped[i]);
	for (unsigned int i = 0; i < STEPPED; i++)
		kmem_cache_destroy(made[i]);
}

static void one_more_costs_the_same(void **state)
{
	unsigned int few = FEW, many = MANY;
	struct counts of_few, of_many;

	(void)state;
	if (!count_steps(make_caches, make_and_destroy, &few, &of_few))
		skip();
	assert_true(count_steps(make_caches, make_and_destroy, &many, &of_many));
	print_message("instructions: %llu with %u caches, %llu with %u\n", of_few.instructions, few,
		      of_many.instructions, many);
	assert_true(of_many.instructions < 2 * of_few.instructions);
}

static struct index_link *link_of(struct index *index, struct index_link *link, uint32_t hash)
{
	struct index_link *found = index_find(index, hash);

	while (found && found != link)
		found = index_next(found);
	return found;
}

/* Each hash is some links', and neighbours are in different chains. */
static void index_finds_what_is_in_it(void **state)
{
	static struct index_link links[LINKS];
	struct index index = {0};
	uint64_t seed = 1;

	(void)state;
	assert_null(index_find(&index, 7));
	for (unsigned int i = 0; i < LINKS; i++)
		index_add(&index, &links[i], i / 3);
	assert_true(index.nr_chains >= LINKS);
	for (unsigned int i = 0; i < LINKS; i++) {
		unsigned int gone = random_below(&seed, LINKS);

		index_remove(&index, &links[gone]);
		index_remove(&index, &links[gone]);
	}
	for (unsigned int i = 0; i < LINKS; i++)
		assert_ptr_equal(link_of(&index, &links[i], i / 3),
				 links[i].from ? &links[i] : NULL);
	for (unsigned int i = 0; i < LINKS; i++)
		index_remove(&index, &links[i]);
	assert_int_equal(index.nr_links, 0);
	assert_null(index_find(&index, 7));
}

static int setup(void **state)
{
	(void)state;
	return caches_ready() ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_more_costs_the_same),
		cmocka_unit_test(index_finds_what_is_in_it),
	};

	return cmocka_run_group_tests_name("many", tests, setup, NULL);
}
