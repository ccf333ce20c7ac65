/* SPDX-License-Identifier: MIT */
/* Steps with grace periods, and the provider of the process. */
#include "fuzz/api/model.h"
#include "kit/by_hand.h"
#include "kit/options.h"

void begin_retiring(void)
{
	by_hand.in_barrier = grace_passes;
	WANT(sheaf_rcu_register(&by_hand_ops) == 0);
}

static void retire_one(int i, unsigned int way)
{
	const struct object o = objects[i];
	void *p = o.p;

	check_content(&o, o.size);
	/* Before the call: it may wait for grace periods. */
	if (way != 3)
		retired((unsigned int)i);
	switch (way) {
	case 0:
		/* Without memory it writes to the object. */
		__kvfree_rcu(p, below((unsigned int)(o.size < 4096 ? o.size : 4096) / 8 - 1) * 8);
		break;
	case 1:
		kmem_cache_free_bulk_rcu(o.s, 1, &p);
		break;
	case 2:
		kmem_cache_free_rcu(o.s, p);
		break;
	default:
		kvfree_rcu_mightsleep(p);
		/* It may have waited for this very object. */
		retired((unsigned int)i);
		objects[i].state = LOOSE;
	}
}

static void retire(void)
{
	unsigned int way = byte() % 4;

	if (has_option("rcu_limit"))
		may_report(); /* the first time above it */
	for (unsigned int n = count(MAX_BULK); n > 0; n--) {
		int i = pick_object();

		if (i < 0)
			return;
		if (way == 0 && (objects[i].size < 16 || memory_is_limited()))
			way = 3;
		retire_one(i, !objects[i].s && way ? 3 : way);
	}
}

static void pass(void)
{
	grace_passes();
	if (byte() & 1)
		pass_of_caches();
	else
		by_hand_pass();
}

static void barrier(void)
{
	struct known *k = byte() & 1 ? some_cache() : NULL;

	if (k)
		kvfree_rcu_barrier_on_cache(k->s);
	else
		kvfree_rcu_barrier();
	all_passed(k ? k->s : NULL);
}

const struct step retire_steps[] = {
	{"retire", retire, 6},
	{"pass", pass, 3},
	{"barrier", barrier, 2},
	{NULL, NULL, 0},
};
