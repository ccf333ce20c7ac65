/* SPDX-License-Identifier: MIT */
/*
 * Every schedule of small programs (sim/enumerate.h), up to a number of preemptions or all of them.
 * Two or three fibres make a call or two each. At the end of each schedule every object is in
 * exactly one place (docs/design.md, R5), and when the rest is freed, nothing is left.
 *
 *   schedules [--deep] [--samples N] [PROGRAM]...
 *
 * --deep: with more preemptions. --samples: also estimate the number of all schedules.
 */
#include <getopt.h>
#include <sheaf/group.h>
#include <sheaf/rcu.h>
#include <sheaf/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "grace/grace.h"
#include "group/stock.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "rcu/rcu_free.h"
#include "sim/enumerate.h"
#include "sim/kit/quiet.h"
#include "sim/kit/readers.h"
#include "sim/sim.h"
#include "slab/slab.h"

enum {
	BYTES = 2048, /* two objects in a slab of one page */
	CHARGE = 200,
};

static struct kmem_cache *s;
static void *given, *taken, *both[2];

static void *take(void)
{
	void *object = kmem_cache_alloc(s, GFP_KERNEL);

	if (!object)
		sim_fail("no memory");
	return object;
}

static void make(unsigned int capacity)
{
	s = kmem_cache_create("small", BYTES, NULL, SLAB_NO_MERGE);
	if (!s)
		sim_fail("no memory");
	kmem_cache_set_sheaf_capacity(s, capacity);
}

/* These objects are in use, and no others; when they are freed, nothing is left. */
static void check_in_use(void **objects, unsigned int n)
{
	struct kmem_cache_stats stats;

	if (kmem_cache_verify(s))
		sim_fail("a fault at the end");
	kmem_cache_stats(s, &stats);
	if (stats.objects_in_use != n)
		sim_fail("%u objects are in use, not %u", (unsigned int)stats.objects_in_use, n);
	for (unsigned int i = 0; i < n; i++)
		kmem_cache_free(s, objects[i]);
	kvfree_rcu_barrier();
	if (kmem_cache_verify(s))
		sim_fail("a fault after the last free");
	if (kmem_cache_shrink(s) || kmem_cache_shrink(s))
		sim_fail("slabs remain when all objects were freed");
	quiet_slabs(&s->sheaf.slab);
}

/* --- one sheaf: two fibres on one CPU, whose sections abort each other ------------------------ */

static void sheaf_prepare(void)
{
	make(2);
	given = take();
	kmem_cache_free(s, take());
}

static void sheaf_body(unsigned int fibre, void *unused)
{
	(void)unused;
	if (fibre)
		kmem_cache_free(s, given);
	else
		taken = take();
}

static void sheaf_check(void)
{
	check_in_use(&taken, 1);
}

/* Only the two sections. */
static bool was_pushed;

static void section_body(unsigned int fibre, void *unused)
{
	(void)unused;
	if (fibre)
		was_pushed = section_push(&s->sheaf.at, given);
	else
		taken = section_pop(&s->sheaf.at);
}

static void section_check(void)
{
	void *objects[2];
	unsigned int n = 0;

	if (!was_pushed)
		objects[n++] = given;
	if (taken)
		objects[n++] = taken;
	check_in_use(objects, n);
}

/* --- push, and a drain with its two membarriers ----------------------------------------------- */

static void drain_body(unsigned int fibre, void *unused)
{
	(void)unused;
	if (fibre)
		sheaf_drain(&s->sheaf);
	else
		was_pushed = section_push(&s->sheaf.at, given);
}

static void drain_check(void)
{
	check_in_use(&given, !was_pushed);
}

/* --- an object of another node is freed, and a drain ------------------------------------------ */

static void remote_prepare(void)
{
	make(2);
	sim_go_to(1);
	given = take();
	sim_go_to(0);
	kmem_cache_free(s, take());
}

static void remote_body(unsigned int fibre, void *unused)
{
	(void)unused;
	if (fibre)
		kmem_cache_shrink(s);
	else
		kmem_cache_free(s, given);
}

static void empty_check(void)
{
	check_in_use(NULL, 0);
}

/* --- a retired object and a barrier ----------------------------------------------------------- */

/* The fibre's object takes the place of an earlier one, whose sheaf is then in hand. */
static void *earlier;
static uint32_t was_retired;

static void retire_prepare(void)
{
	readers_register();
	make(1);
	earlier = take();
	given = take();
	kmem_cache_free_rcu(s, earlier);
}

static void see_waiting(void *both_retired, struct sheaf *sheaf, bool waits)
{
	for (unsigned int i = 0; waits && i < sheaf_size(sheaf); i++)
		if (sheaf->objects[i] == earlier || *(bool *)both_retired)
			sim_fail("an object waits for a grace period after a barrier");
}

static void retire_body(unsigned int fibre, void *unused)
{
	bool both_retired;

	(void)unused;
	if (!fibre) {
		kmem_cache_free_rcu(s, given);
		os_store_relaxed(&was_retired, 1);
		return;
	}
	both_retired = os_load_relaxed(&was_retired);
	kvfree_rcu_barrier_on_cache(s);
	sheaf_for_each_retired(&s->sheaf, see_waiting, &both_retired);
}

/* Until a barrier, an object may count as in use. */
static void retire_check(void)
{
	kvfree_rcu_barrier();
	check_in_use(NULL, 0);
}

/* --- two caches begin to use a provider while another provider is used for the first time ----- */

static struct sheaf_rcu_ops providers[2];
static struct grace *graces[3];
static struct grace_user users[3];

static void no_call(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	(void)head, (void)func;
}

static void no_check(void)
{
}

static void provider_prepare(void)
{
	make(1);
	for (int i = 0; i < 2; i++)
		providers[i] = (struct sheaf_rcu_ops){.size = sizeof(providers[i]),
						      .name = "small",
						      .call = no_call,
						      .barrier = no_check};
}

static void provider_body(unsigned int fibre, void *unused)
{
	static const struct grace_user_ops none;

	(void)unused;
	graces[fibre] = grace_of(&providers[fibre / 2]);
	if (!graces[fibre] || !grace_add_user(graces[fibre], &users[fibre], &none))
		sim_fail("no memory");
}

static void provider_check(void)
{
	if (graces[0] != graces[1] || graces[0] == graces[2] ||
	    grace_of(&providers[0]) != graces[0] || grace_of(&providers[1]) != graces[2])
		sim_fail("a provider was made twice, or not at all");
	if (users[0].places == users[1].places && users[0].bit == users[1].bit)
		sim_fail("two users have one place");
}

/* --- the stock of a group: a charge and an uncharge on one CPU -------------------------------- */

static struct kmem_group *group;

static void stock_prepare(void)
{
	group = kmem_group_create("small", NULL, NULL);
	if (!group || stock_charge(group->number, CHARGE, GROUP_TRY))
		sim_fail("no memory");
}

static void stock_body(unsigned int fibre, void *unused)
{
	(void)unused;
	if (fibre)
		stock_uncharge(group->number, CHARGE);
	else if (stock_charge(group->number, CHARGE, GROUP_TRY))
		sim_fail("a group without a limit refuses a charge");
}

static void stock_check(void)
{
	if (group->usage != stock_bytes(group) + CHARGE)
		sim_fail("%zu bytes are charged, and %zu in stocks", (size_t)group->usage,
			 (size_t)stock_bytes(group));
	stock_drain(group);
	if (group->usage != CHARGE)
		sim_fail("%zu bytes are charged after a drain", (size_t)group->usage);
}

/* --- slabs alone: one object is taken while another one of a full slab is given back ---------- */

static void slab_prepare(void)
{
	make(2);
	if (slab_take(&s->sheaf.slab, 0, SLAB_PREFER_NODE, both, 2) != 2)
		sim_fail("no memory");
}

static void half_prepare(void)
{
	slab_prepare();
	slab_give(&s->sheaf.slab, &both[1], 1, "test");
}

static void slab_body(unsigned int fibre, void *unused)
{
	(void)unused;
	if (fibre)
		slab_give(&s->sheaf.slab, &both[0], 1, "test");
	else if (slab_take(&s->sheaf.slab, 0, SLAB_PREFER_NODE, &taken, 1) != 1)
		sim_fail("no memory");
}

static void slab_check(void)
{
	if (quiet_slabs(&s->sheaf.slab) != 1)
		sim_fail("the slabs do not count one object");
}

/* Both objects of the full slab are given back: one of the two must list it. */
static void give_body(unsigned int fibre, void *unused)
{
	(void)unused;
	slab_give(&s->sheaf.slab, &both[fibre], 1, "test");
}

static void give_check(void)
{
	if (quiet_slabs(&s->sheaf.slab))
		sim_fail("the slab is not empty");
}

/* --- a prefilled sheaf and a drain ------------------------------------------------------------ */

static void prefill_prepare(void)
{
	make(2);
	kmem_cache_free(s, take());
}

static void prefill_body(unsigned int fibre, void *unused)
{
	struct slab_sheaf *sheaf;

	(void)unused;
	if (fibre) {
		kmem_cache_shrink(s);
		return;
	}
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 1);
	if (!sheaf)
		sim_fail("no memory");
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
}

/* --- the enumeration itself: three fibres of two steps, and two that take a lock -------------- */

static struct os_lock lock = OS_LOCK_INIT(OS_RANK_NODE);
static uint32_t word;

static void count_body(unsigned int fibre, void *unused)
{
	(void)unused;
	os_fetch_add(&word, fibre);
	os_fetch_add(&word, fibre);
}

static void lock_body(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	os_lock(&lock);
	os_fetch_add(&word, 1);
	os_unlock(&lock);
}

/* --- running ---------------------------------------------------------------------------------- */

enum {
	RSEQ = OS_BACKEND_RSEQ,
	TRYLOCK = OS_BACKEND_TRYLOCK
};

static const struct program {
	const char *name;
	unsigned int backend, cpus, nodes;
	void (*prepare)(void);
	struct sim_program program;
	unsigned int quick, deep; /* preemptions */
	uint64_t exactly;	  /* schedules, or 0 */
} programs[] = {
	/* 6! / (2! 2! 2!) */
	{"count", RSEQ, 1, 1, no_check, {3, count_body, no_check}, SIM_ANY, SIM_ANY, 90},
	/* One takes the lock, and the other waits. */
	{"lock", RSEQ, 2, 1, no_check, {2, lock_body, no_check}, SIM_ANY, SIM_ANY, 2},
	{"stock", RSEQ, 1, 1, stock_prepare, {2, stock_body, stock_check}, 3, 6, 0},
	{"stock", TRYLOCK, 1, 1, stock_prepare, {2, stock_body, stock_check}, 2, SIM_ANY, 0},
	{"section",
	 RSEQ,
	 1,
	 1,
	 sheaf_prepare,
	 {2, section_body, section_check},
	 SIM_ANY,
	 SIM_ANY,
	 0},
	{"section",
	 TRYLOCK,
	 1,
	 1,
	 sheaf_prepare,
	 {2, section_body, section_check},
	 SIM_ANY,
	 SIM_ANY,
	 0},
	{"sheaf", RSEQ, 1, 1, sheaf_prepare, {2, sheaf_body, sheaf_check}, 2, 4, 0},
	{"sheaf", TRYLOCK, 1, 1, sheaf_prepare, {2, sheaf_body, sheaf_check}, 1, 3, 0},
	{"slab", RSEQ, 2, 1, half_prepare, {2, slab_body, slab_check}, 3, 4, 0},
	{"give", RSEQ, 2, 1, slab_prepare, {2, give_body, give_check}, 2, 4, 0},
	{"drain", RSEQ, 2, 1, sheaf_prepare, {2, drain_body, drain_check}, 2, 3, 0},
	{"drain", TRYLOCK, 2, 1, sheaf_prepare, {2, drain_body, drain_check}, 1, 2, 0},
	{"retire", RSEQ, 2, 1, retire_prepare, {2, retire_body, retire_check}, 1, 2, 0},
	{"provider", RSEQ, 1, 1, provider_prepare, {3, provider_body, provider_check}, 1, 2, 0},
	{"remote", RSEQ, 2, 2, remote_prepare, {2, remote_body, empty_check}, 1, 2, 0},
	{"prefill", RSEQ, 2, 1, prefill_prepare, {2, prefill_body, empty_check}, 1, 2, 0},
};

static bool deep;
static uint64_t samples;

static int run(void *data)
{
	const struct program *program = data;
	struct sim_config config = {.cpus = program->cpus,
				    .nodes = program->nodes,
				    .backend = program->backend,
				    .options = "slab_max_order=0",
				    .silent = true,
				    .step_ns = 1,
				    .max_steps = 1 << 20};
	unsigned int preemptions = deep ? program->deep : program->quick;
	struct sim_schedules found;
	char bound[40] = "";

	sim_start(&config);
	program->prepare();
	found = sim_enumerate(&program->program, preemptions, UINT64_MAX);
	if (preemptions != SIM_ANY)
		snprintf(bound, sizeof(bound), " of at most %u preemptions", preemptions);
	printf("%-7s %-7s %7llu schedules%s, %llu steps, at most %llu in one\n", program->name,
	       program->backend == RSEQ ? "rseq" : "trylock", (unsigned long long)found.schedules,
	       bound, (unsigned long long)found.steps, (unsigned long long)found.longest);
	if (found.failed || (program->exactly && found.schedules != program->exactly))
		return 1;
	if (samples && preemptions != SIM_ANY) {
		found = sim_sample(&program->program, SIM_ANY, samples);
		printf("%15s about %.1e in all, by %llu samples; at most %llu steps in one\n", "",
		       found.estimate, (unsigned long long)found.schedules,
		       (unsigned long long)found.longest);
	}
	return found.failed;
}

static bool is_wanted(const char *name, char **names)
{
	for (char **one = names; *one; one++)
		if (!strcmp(*one, name))
			return true;
	return !*names;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"deep", no_argument, NULL, 'd'},
						{"samples", required_argument, NULL, 'n'},
						{NULL, 0, NULL, 0}};
	uint64_t hash;
	int failed = 0, option;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'd')
			deep = true;
		else if (option == 'n')
			samples = strtoull(optarg, NULL, 10);
		else
			return 2;
	}
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (!is_wanted(programs[i].name, argv + optind))
			continue;
		if (sim_in_child(run, (void *)&programs[i], &hash)) {
			printf("FAILED: %s\n", programs[i].name);
			failed++;
		}
	}
	return failed != 0;
}
