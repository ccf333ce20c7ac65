/* SPDX-License-Identifier: MIT */
/*
 * Unused memory is returned inside other calls: rows of CPUs where the program no longer runs
 * within a second; sheaves and caches that were not used in the time of the option decay; free
 * pages, also in calls that free none.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cache/paths.h"
#include "kit/cache.h"
#include "kit/clock.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/options/options.h"
#include "page/limit.h"
#include "page/page.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"
#include "percpu/drain.h"
#include "percpu/idle.h"
#include "percpu/rows.h"
#include "percpu/sheaf.h"

enum {
	DECAY = 1000, /* ms */
	CACHES = 20,
	MANY = 2000, /* objects: sheaves of them go to the barn */
	FEW = 400,   /* more than a CPU's two sheaves */
	MUCH = 64,   /* MiB that sheaves may hold */
	SOFT_MS = 1000,
	LARGE = 508,		 /* capacity of sheaves */
	MOST = 8192 + 2 * LARGE, /* objects that one call returns, and the rest of one slot */
	CHUNK_ORDER = 9,
	CHUNKS = 32,
	HEAP = 512, /* chunks */
	SLOW = 512, /* objects: more than a slot holds */
};

static struct kmem_cache *busy, *idle[CACHES];

static void use(struct kmem_cache *s, unsigned int n)
{
	void *objects[MANY];

	for (unsigned int i = 0; i < n; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(objects[i]);
	}
	for (unsigned int i = 0; i < n; i++)
		kmem_cache_free(s, objects[i]);
}

/* Slow paths of one cache, while this time passes. */
static void call_for_ms(unsigned int ms)
{
	for (unsigned int i = 0; i < ms; i += DECAY_TICK_MS) {
		clock_pass_ms(DECAY_TICK_MS);
		use(busy, FEW);
	}
}

static void count_sheaf(void *objects, struct sheaf *sheaf, bool waits)
{
	(void)waits;
	*(unsigned int *)objects += sheaf_size(sheaf);
}

/* Objects in sheaves. */
static unsigned int stored(struct kmem_cache *s)
{
	unsigned int objects = 0;

	sheaf_for_each(&s->sheaf, count_sheaf, &objects);
	return objects;
}

static unsigned int stored_in_all(void)
{
	unsigned int objects = 0;

	for (unsigned int i = 0; i < CACHES; i++)
		objects += stored(idle[i]);
	return objects;
}

static bool slots_are_empty(struct kmem_cache *s)
{
	for (unsigned int row = 0; row < os.nr_rows; row++)
		if (slot_of_row(s->sheaf.at.handle, row)->main != &sheaf_bootstrap)
			return false;
	return true;
}

static bool row_is_its_own; /* of the burst: an mm_cid may also be another one's */

static void *use_all(void *cpu)
{
	pin((unsigned int)(uintptr_t)cpu);
	row_is_its_own = os_row() == (uintptr_t)cpu;
	for (unsigned int i = 0; i < CACHES; i++)
		use(idle[i], MANY);
	row_is_its_own &= os_row() == (uintptr_t)cpu;
	return NULL;
}

static bool burst(unsigned int cpu)
{
	pthread_t thread;
	cpu_set_t allowed;
	bool possible =
		!sched_getaffinity(1, sizeof(allowed), &allowed) && CPU_ISSET(cpu, &allowed);

	if (!possible)
		return false;
	pthread_create(&thread, NULL, use_all, (void *)(uintptr_t)cpu);
	pthread_join(thread, NULL);
	return true;
}

static void a_burst_of_threads_is_over(void **state)
{
	(void)state;
	pin(0);
	if (!burst(1) || !row_is_its_own || os_row() != 0)
		skip();
	for (unsigned int i = 0; i < CACHES; i++)
		assert_true(stored(idle[i]) > 0);
	call_for_ms(1000);
	if (os_row() != 0)
		skip();
	for (unsigned int i = 0; i < CACHES; i++) {
		assert_true(slots_are_empty(idle[i]));
		/* Sheaves in the blocks belong to the node. */
		for (unsigned int k = 0; k < SLOT_CELLS; k++)
			assert_int_equal(slot_of_row(idle[i]->sheaf.at.handle, 1)->cells[k], 0);
	}
	/* The row that is in use keeps its sheaves. */
	assert_true(stored(busy) > 0);
	assert_false(slots_are_empty(busy));
}

/* The bottom of the barn is emptied; sheaves that are exchanged stay. */
static void sheaves_that_lie_in_a_barn_go(void **state)
{
	unsigned int many, few;

	(void)state;
	use(busy, MANY);
	many = stored(busy);
	assert_true(many > FEW + FEW / 2);
	call_for_ms(DECAY / 4);
	assert_true(stored(busy) >= many - many / 10);
	call_for_ms(DECAY * 3 / 2);
	few = stored(busy);
	assert_true(few >= FEW / 2);
	assert_true(few < many * 3 / 4);
	call_for_ms(DECAY);
	assert_true(stored(busy) >= FEW / 2);
}

static void empty_sheaves_beyond_their_limit_go(void **state)
{
	struct kmem_cache *s;
	void *objects[MANY];

	(void)state;
	needs(NEED_SHEAVES);
	s = make("empties", 64, 0);
	use(s, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	assert_true(look(s).barn_empty > 3);
	os_lock(&sheaf_drains);
	slab_rest(&s->sheaf.slab)->barn_empty = 3;
	idle_age(&s->sheaf, MANY);
	os_unlock(&sheaf_drains);
	assert_int_equal(look(s).barn_empty, 3);
	for (unsigned int i = 0; i < MANY; i++)
		kmem_cache_free(s, objects[i]);
	kmem_cache_destroy(s);
}

/* Housekeeping does not wait for the time of the other passes. */
static void what_nobody_uses_goes_soon(void)
{
	for (unsigned int i = 0; i < CACHES; i++)
		use(idle[i], MANY);
	os_options.sheaf_budget = 1;
	sheaf_budget_follow();
	assert_true(sheaf_budget_is_over());
	call_for_ms(DECAY / 4);
	assert_false(sheaf_budget_is_over());
	/* With decay=never no more goes than must. */
	for (unsigned int i = 0; i < CACHES && !os_options.decay_never; i++)
		assert_true(slots_are_empty(idle[i]));
	assert_true(stored(busy) > 0 && !slots_are_empty(busy));
	os_options.sheaf_budget = MUCH;
	sheaf_budget_follow();
}

static void above_the_budget_what_nobody_uses_goes_soon(void **state)
{
	(void)state;
	what_nobody_uses_goes_soon();
	os_options.decay_never = 1;
	what_nobody_uses_goes_soon();
	os_options.decay_never = 0;
}

static void a_cache_that_nobody_uses_goes(void **state)
{
	unsigned int capacity = sheaf_capacity(&idle[0]->sheaf);
	struct kmem_cache_stats stats;

	(void)state;
	for (unsigned int i = 0; i < 100 && sheaf_capacity(&idle[0]->sheaf) == capacity; i++)
		for (unsigned int k = 0; k < 10; k++)
			use(idle[0], MANY);
	for (unsigned int i = 0; i < 100; i++)
		barn_note_imbalance(&idle[0]->sheaf, os_cpu(), !(i % 2));
	assert_true(barn_cpu_bytes(&idle[0]->sheaf) > BARN_CPU_BYTES);
	stats = look(idle[0]);
	assert_true(stats.slabs > 0);
	/* The second pass that finds it unused returns all, also the slabs that it made empty. */
	call_for_ms(DECAY + DECAY / 20);
	assert_true(slots_are_empty(idle[0]));
	assert_int_equal(stored(idle[0]), 0);
	assert_int_equal(look(idle[0]).slabs, 0);
	assert_int_equal(sheaf_capacity(&idle[0]->sheaf), capacity);
	assert_int_equal(barn_cpu_bytes(&idle[0]->sheaf), BARN_CPU_BYTES);
	assert_int_equal(kmem_cache_verify(idle[0]), 0);
	assert_int_equal(kmem_cache_verify(busy), 0);
	use(idle[0], MANY);
}

/* Frees without waiting leave as many empty slabs as there are. */
static void use_nolock(struct kmem_cache *s)
{
	static void *objects[MANY];

	for (unsigned int i = 0; i < MANY; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	for (unsigned int i = 0; i < MANY; i++)
		kmem_cache_free_nolock(s, objects[i]);
}

static void empty_slabs_of_nolock_frees_go(void **state)
{
	/* Passes leave the slabs of a checked cache, which could no longer be checked. */
	struct kmem_cache *s =
		make("nolock", 4096, SLAB_NO_SHEAVES | SLAB_NO_USER_FLAGS | no_samples());

	(void)state;
	use_nolock(s);
	assert_true(look(s).slabs >= MANY / look(s).objs_per_slab);
	call_for_ms(DECAY);
	assert_int_equal(look(s).slabs, 0);
	kmem_cache_destroy(s);
}

/* A cache whose slabs become empty all the time does not keep a pass from the others. */
static void others_go_beside_nolock_frees(void **state)
{
	struct kmem_cache *s = make("churn", 4096, SLAB_NO_SHEAVES | no_samples()),
			  *others[] = {idle[3], make("later", 64, SLAB_NO_USER_FLAGS)};
	unsigned int ms = 0;

	(void)state;
	page_set_limits(OS_PAGE, 0);
	while (ms < 5 * SOFT_MS) {
		use_nolock(s);
		call_for_ms(DECAY_TICK_MS);
		ms += DECAY_TICK_MS;
		if (ms < 2 * SOFT_MS)
			for (unsigned int i = 0; i < 2; i++)
				use(others[i], FEW);
	}
	page_set_limits(0, 0);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(stored(others[i]), 0);
	kmem_cache_destroy(others[1]);
	kmem_cache_destroy(s);
}

static void large_blocks_go(void **state)
{
	needs(NEED_SHEAVES);
	/* The caches' own structures stay. */
	const size_t own = 16 * OS_PAGE;
	size_t used;

	(void)state;
	/* Until nothing more is returned. */
	do {
		used = page_usage().used;
		call_for_ms(2 * DECAY);
	} while (page_usage().used < used);
	used = page_usage().used;
	for (unsigned int i = 0; i < 6; i++)
		kvfree(kvmalloc(OS_PAGE << (i + 4), GFP_KERNEL));
	assert_true(page_usage().used > used + own);
	/* Those that are taken again stay. */
	for (unsigned int i = 0; i < 3 * DECAY; i += DECAY / 8) {
		call_for_ms(DECAY / 8);
		kvfree(kvmalloc(OS_PAGE << 9, GFP_KERNEL));
		kvfree(kvmalloc(OS_PAGE << 8, GFP_KERNEL));
	}
	assert_true(page_usage().used <= used + (OS_PAGE << 8) + own);
	assert_true(page_usage().used > used + own);
	call_for_ms(2 * DECAY);
	assert_true(page_usage().used <= used + own);
}

/* However many caches are idle, and however many objects they have, no call takes long. Returns the
 * most objects that one of them returned. */
static unsigned int goes_in_parts(void)
{
	unsigned int before = stored_in_all(), now, most = 0;

	assert_true(before > 2 * MOST);
	for (unsigned int ms = 0; before; ms += DECAY_TICK_MS) {
		assert_true(ms < 4 * DECAY);
		call_for_ms(DECAY_TICK_MS);
		now = stored_in_all();
		assert_true(before - now <= MOST);
		most = before - now > most ? before - now : most;
		before = now;
	}
	return most;
}

static void one_call_gives_back_a_part(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < CACHES; i++) {
		assert_int_equal(kmem_cache_set_sheaf_capacity(idle[i], LARGE), 0);
		use(idle[i], i < CACHES / 2 ? LARGE : MANY);
	}
	/* Several slots in one call, also if counts are above the sizes in their words. */
	assert_true(goes_in_parts() > 2 * LARGE);
	/* The rows of another CPU. */
	if (burst(1) && row_is_its_own && os_row() == 0)
		goes_in_parts();
	/* Above the soft limit. */
	for (unsigned int i = 0; i < CACHES; i++)
		use(idle[i], MANY);
	page_set_limits(OS_PAGE, 0);
	goes_in_parts();
	page_set_limits(0, 0);
	for (unsigned int i = 0; i < CACHES; i++)
		assert_int_equal(kmem_cache_verify(idle[i]), 0);
}

/* Others hold what it would need. */
static void *call_for_these_ms(void *ms)
{
	call_for_ms((unsigned int)(uintptr_t)ms);
	return NULL;
}

/* In another thread: this one has a lock. */
static void other_calls_for_ms(unsigned int ms)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, call_for_these_ms, (void *)(uintptr_t)ms),
			 0);
	pthread_join(thread, NULL);
}

static void nothing_is_waited_for(void **state)
{
	(void)state;
	/* IDLE-I1 */
	use(idle[1], MANY);
	os_lock(&sheaf_drains);
	other_calls_for_ms(3 * DECAY);
	os_unlock(&sheaf_drains);
	os_lock(&caches.lock);
	other_calls_for_ms(DECAY);
	os_unlock(&caches.lock);
	/* Above the soft limit, too. */
	page_set_limits(OS_PAGE, 0);
	os_lock(&sheaf_drains);
	other_calls_for_ms(3 * SOFT_MS);
	os_unlock(&sheaf_drains);
	page_set_limits(0, 0);
	call_for_ms(3 * DECAY);
	assert_int_equal(stored(idle[1]), 0);
}

static void above_soft_all_goes(void **state)
{
	(void)state;
	use(idle[2], MANY);
	page_set_limits(OS_PAGE, 0);
	while (stored(idle[2]))
		call_for_ms(SOFT_MS);
	page_set_limits(0, 0);
	assert_int_equal(kmem_cache_verify(idle[2]), 0);
}

/* A pass that began above the soft limit, and that visited some of the caches, does not continue
 * below it with decay=never: an earlier such pass may have found the other caches as they are. */
static void what_is_below_soft_stays(void **state)
{
	unsigned int before, rest;

	(void)state;
	os_options.decay_never = 1;
	for (int pass = 0; pass < 2; pass++) {
		for (unsigned int i = 0; i < CACHES; i++)
			if (!stored(idle[i]))
				use(idle[i], MANY);
		before = stored_in_all();
		page_set_limits(OS_PAGE, 0);
		while (stored_in_all() == before)
			call_for_ms(DECAY_TICK_MS);
		page_set_limits(0, 0);
		rest = stored_in_all();
		assert_true(rest > 0);
		call_for_ms(DECAY);
		assert_int_equal(stored_in_all(), rest);
	}
	os_options.decay_never = 0;
}

/* Caches come and go between the parts of a pass. */
static void caches_go_meanwhile(void **state)
{
	struct kmem_cache *made[CACHES] = {NULL};

	(void)state;
	for (unsigned int i = 0; i < 100; i++) {
		char name[32];

		if (made[i % CACHES])
			kmem_cache_destroy(made[i % CACHES]);
		snprintf(name, sizeof(name), "goes-%u", i);
		made[i % CACHES] = make(name, 64, SLAB_NO_USER_FLAGS);
		use(made[i % CACHES], i * 7 % MANY);
		call_for_ms(DECAY / 16);
	}
	for (unsigned int i = 0; i < CACHES; i++)
		kmem_cache_destroy(made[i]);
}

/* --- free pages ------------------------------------------------------------------------------- */

static size_t dirty_before;

/* No call returns more than one round and its own frees do, each within this bound. */
static void see_call(void)
{
	size_t now = page_usage().dirty;

	assert_true(now + 2 * PAGE_DISCARD_MAX >= dirty_before);
	dirty_before = now;
}

/* Slow paths that free no page: the objects stay in sheaves. */
static void call_slow_paths(void)
{
	static void *objects[SLOW];

	dirty_before = page_usage().dirty;
	for (unsigned int i = 0; i < SLOW; i++) {
		objects[i] = kmem_cache_alloc(busy, GFP_KERNEL);
		see_call();
	}
	for (unsigned int i = 0; i < SLOW; i++) {
		kmem_cache_free(busy, objects[i]);
		see_call();
	}
}

static void call_and_see_for_ms(unsigned int ms)
{
	for (unsigned int i = 0; i < ms; i += DECAY_TICK_MS) {
		clock_pass_ms(DECAY_TICK_MS);
		call_slow_paths();
	}
}

static void use_and_free(unsigned int chunks)
{
	static struct slab *runs[HEAP];

	for (unsigned int i = 0; i < chunks; i++)
		runs[i] = page_alloc(0, CHUNK_ORDER);
	for (unsigned int i = 0; i < chunks; i++)
		page_free(runs[i], CHUNK_ORDER);
}

static void free_pages_go_back_in_any_slow_call(void **state)
{
	size_t begin;

	(void)state;
	if (os_options.tiny)
		skip();
	call_and_see_for_ms(2 * DECAY);
	page_trim();
	begin = page_usage().used;
	use_and_free(CHUNKS);
	assert_true(page_usage().dirty >= CHUNKS * OS_HUGE);
	/* For that time nothing is returned, ... */
	call_slow_paths();
	assert_true(page_usage().dirty >= CHUNKS * OS_HUGE);
	call_and_see_for_ms(DECAY - DECAY_TICK_MS);
	assert_true(page_usage().dirty >= CHUNKS * OS_HUGE);
	/* ... and then everything but what may always stay. */
	call_and_see_for_ms(DECAY / DECAY_PARTS + 8 * DECAY_TICK_MS);
	assert_true(page_usage().dirty <= page_bound());
	/* The system may have given this thread another index, whose slot takes memory. */
	assert_true(page_usage().used < begin + OS_HUGE);
}

static void nothing_goes_while_nothing_is_called(void **state)
{
	size_t before;

	(void)state;
	if (os_options.tiny)
		skip();
	use_and_free(CHUNKS);
	before = page_usage().dirty;
	clock_pass_ms(100 * DECAY);
	assert_int_equal(page_usage().dirty, before);
	call_slow_paths();
	assert_true(page_usage().dirty < before);
}

/* Each slow call after a pause does a round, until all that is due is returned. */
static void a_large_heap_goes_soon_after_a_pause(void **state)
{
	unsigned int turns = 0;

	(void)state;
	if (os_options.tiny)
		skip();
	os.memory = SIZE_MAX;
	use_and_free(HEAP);
	assert_true(page_usage().dirty >= HEAP * OS_HUGE);
	clock_pass_ms(2 * DECAY);
	while (page_usage().dirty > page_bound() && turns++ < 20)
		call_slow_paths();
	assert_true(page_usage().dirty <= page_bound());
}

static int set_up(void **state)
{
	char name[32];

	(void)state;
	clock_stands = true;
	pin(0);
	busy = make("busy", 64, SLAB_NO_USER_FLAGS);
	os_options.sheaf_budget = MUCH;
	sheaf_budget_follow();
	/* Larger ones would hold all that it uses, and it would call no slow path. */
	assert_int_equal(kmem_cache_set_sheaf_capacity(busy, 60), 0);
	assert_int_equal(kmem_cache_set_barn(busy, 0, (size_t)1 << 20), 0);
	for (unsigned int i = 0; i < CACHES; i++) {
		snprintf(name, sizeof(name), "idle-%u", i);
		idle[i] = make(name, 64 + 8 * i, SLAB_NO_USER_FLAGS);
	}
	return 0;
}

int main(void)
{
	/* Free pages first: their times are exact to two ticks, and nodes take turns. */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(free_pages_go_back_in_any_slow_call),
		cmocka_unit_test(nothing_goes_while_nothing_is_called),
		cmocka_unit_test(a_large_heap_goes_soon_after_a_pause),
		cmocka_unit_test(a_burst_of_threads_is_over),
		cmocka_unit_test(sheaves_that_lie_in_a_barn_go),
		cmocka_unit_test(empty_sheaves_beyond_their_limit_go),
		cmocka_unit_test(above_the_budget_what_nobody_uses_goes_soon),
		cmocka_unit_test(a_cache_that_nobody_uses_goes),
		cmocka_unit_test(empty_slabs_of_nolock_frees_go),
		cmocka_unit_test(others_go_beside_nolock_frees),
		cmocka_unit_test(large_blocks_go),
		cmocka_unit_test(nothing_is_waited_for),
		cmocka_unit_test(above_soft_all_goes),
		cmocka_unit_test(what_is_below_soft_stays),
		cmocka_unit_test(caches_go_meanwhile),
		cmocka_unit_test(one_call_gives_back_a_part),
	};

	return cmocka_run_group_tests_name("idle", tests, set_up, NULL);
}
