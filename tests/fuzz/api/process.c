/* SPDX-License-Identifier: MIT */
/* Steps with what the process has: limits, shrinkers, reports, time, CPUs; and the end of the
 * program. */
#include <errno.h>
#include <fcntl.h>
#include <sheaf/debug.h>
#include <sheaf/limit.h>
#include <sheaf/shrinker.h>
#include <sheaf/trim.h>
#include <unistd.h>

#include "fuzz/api/model.h"
#include "kit/clock.h"
#include "kit/hooks.h"
#include "kit/options.h"
#include "kit/process.h"

/* --- memory ----------------------------------------------------------------------------------- */

static void trim(void)
{
	sheaf_trim(byte() & 1 ? 0 : (size_t)below(64) << 16);
}

static void set_process_limits(void)
{
	size_t soft = byte() & 1 ? 0 : (size_t)below(300) << 15,
	       hard = byte() & 1 ? 0 : (size_t)below(600) << 15;
	int error = sheaf_set_limits(soft, hard);

	if (hard && soft > hard) {
		WANT(error == -EINVAL);
		must_report();
		return;
	}
	WANT(error == 0);
	may_report(); /* what is held already is more */
	program.limited = hard != 0;
}

static unsigned long count_objects(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)sc;
	WANT(*(unsigned int *)shrinker->private_data == 1);
	return nr_objects;
}

/* Frees the oldest. */
static unsigned long scan_objects(struct shrinker *shrinker, struct shrink_control *sc)
{
	unsigned long freed = 0;

	(void)shrinker;
	for (unsigned int i = 0; i < nr_objects && freed < sc->nr_to_scan && freed < 4; i++)
		if (objects[i].state == LIVE && !objects[i].pinned && objects[i].pool == NO_POOL) {
			free_any(i);
			freed++;
		}
	return freed ? freed : SHRINK_STOP;
}

static unsigned int reported;
static struct shrinker *shrinkers[3];
static unsigned int registered[3];

static void shrinker(void)
{
	unsigned int i = below(3);

	if (shrinkers[i]) {
		shrinker_free(shrinkers[i]);
		shrinkers[i] = NULL;
		registered[i] = 2;
		return;
	}
	shrinkers[i] = shrinker_alloc(0, "shrinker %u", i);
	if (!shrinkers[i]) {
		WANT(memory_is_limited());
		return;
	}
	shrinkers[i]->count_objects = count_objects;
	shrinkers[i]->scan_objects = scan_objects;
	shrinkers[i]->batch = (long)below(8);
	shrinkers[i]->seeks = (int)below(4);
	shrinkers[i]->private_data = &registered[i];
	registered[i] = 1;
	shrinker_register(shrinkers[i]);
}

/* --- reports ---------------------------------------------------------------------------------- */

/* It may use the library. */
static void take_report(void *its, const char *text, size_t length)
{
	WANT(its == &reported && length && text[length - 1] == '\n');
	WANT(sheaf_set_report(NULL, NULL, NULL) == -EBUSY);
	kfree(kmalloc(100, GFP_NOWAIT | __GFP_NOWARN));
	reported++;
}

static void set_report(void)
{
	static bool ours;
	struct sheaf_report_to before;

	WANT(sheaf_set_report(ours ? NULL : take_report, ours ? NULL : &reported, &before) == 0);
	WANT(before.report == (ours ? take_report : NULL));
	ours = !ours;
}

/* --- time and place --------------------------------------------------------------------------- */

static void time_passes(void)
{
	clock_pass_ms(1u << below(14));
}

static void move(void)
{
	pin(below(2));
	errno = ERRNO;
}

static void print(void)
{
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

	WANT(sheaf_stats_print(nowhere, byte() % 3) == 0 || memory_is_limited());
	WANT(sheaf_stats_print(nowhere, 9) == -EINVAL);
	WANT(sheaf_stats_print(-1, byte() % 3) != 0);
	close(nowhere);
}

static void owned(void)
{
	int local;

	WANT(!sheaf_owns(NULL) && !sheaf_owns(&local) && !sheaf_owns((void *)run_steps));
	WANT(sheaf_owns(ZERO_SIZE_PTR) && !sheaf_explain_fault(&local, NULL));
	for (unsigned int i = 0; i < nr_objects; i++)
		if (objects[i].state == LIVE)
			WANT(sheaf_owns(objects[i].p + below(8) * objects[i].size / 8));
}

const struct step process_steps[] = {
	{"trim", trim, 1},	   {"set_limits", set_process_limits, 1},
	{"shrinker", shrinker, 1}, {"time", time_passes, 2},
	{"move", move, 3},	   {"print", print, 1},
	{"owned", owned, 1},	   {"set_report", set_report, 1},
	{NULL, NULL, 0},
};

/* --- the end ---------------------------------------------------------------------------------- */

static void want_nothing_left(void)
{
	struct kmem_group_stats root;
	struct kmem_cache_stats stats;
	struct sheaf_stats all;

	WANT(kmem_group_stats(NULL, &root) == 0 && root.bytes == 0);
	sheaf_stats(&all);
	WANT(all.mapped_bytes == 0 && all.rcu_bytes == 0);
	for (struct kmem_cache *s = NULL; (s = hook_next_of_kmalloc(s)) != NULL;)
		WANT(kmem_cache_stats(s, &stats) == 0 && !stats.objects_in_use);
}

void finish_process(void)
{
	struct known *k;

	WANT(sheaf_set_limits(0, 0) == 0);
	program.limited = has_option("hard_limit");
	for (unsigned int i = 0; i < 3; i++)
		shrinker_free(shrinkers[i]);
	check_all();
	return_sheaves(NULL);
	destroy_pools(NULL);
	while (nr_objects) {
		unsigned int i = nr_objects - 1;

		if (objects[i].state == LIVE) {
			free_any(i);
		} else {
			kvfree_rcu_barrier();
			all_passed(NULL);
		}
	}
	kvfree_rcu_barrier();
	check_all();
	destroy_sets();
	while ((k = some_cache()) != NULL)
		destroy_cache(k);
	finish_groups();
	sheaf_trim(0);
	check_all();
	want_nothing_left();
}
