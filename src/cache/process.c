/* SPDX-License-Identifier: MIT */
/*
 * The library in its process: first use, fork, and where reports go.
 *
 * First use may be in another library's constructor. So this library's constructor does only three
 * things: it registers the fork handlers, as first use would; it registers for membarrier, which
 * takes long once there are threads; and it makes this code stay loaded, which must happen before a
 * dlclose(). Nothing is torn down at exit, because other destructors may still free objects.
 *
 * fork: prepare takes every lock that the child could need, in rank order. The parent releases
 * them, and so does the child, which then forgets everything that vanished threads had in hand.
 */
#include <pthread.h>
#include <sheaf/debug.h>

#include "cache/account.h"
#include "cache/destroyed_stats.h"
#include "cache/list.h"
#include "cache/publish.h"
#include "cache/shrinkers.h"
#include "os/memory.h"
#include "os/report/callback.h"
#include "os/report/sink.h"
#include "os/should_fail.h"
#include "page/limit.h"
#include "percpu/barn/budget.h"
#include "percpu/drain.h"
#include "percpu/idle.h"
#include "percpu/rows.h"
#include "rcu/any.h"
#include "rcu/rcu_free.h"
#include "slab/drain_marks.h"

struct caches caches = {
	.lock = OS_LOCK_INIT(OS_RANK_CACHES),
	.family = OS_LOCK_INIT(OS_RANK_KMALLOC),
	.free_call = "kfree",
};
/* Reset by fork in a child. In .data, whose page the loader writes anyway. */
static pthread_once_t fork_once __attribute__((section(".data"))) = PTHREAD_ONCE_INIT;

/* Call each for every node list. */
static void for_each_node(void (*each)(struct slab_cache *cache, struct slab_node *node))
{
	for (struct kmem_cache *s = caches.first; s; s = s->next)
		for (uint32_t i = 0; i < os.nr_nodes; i++) {
			struct slab_node *node = os_load_acquire(&s->sheaf.slab.nodes[i]);

			if (node)
				each(&s->sheaf.slab, node);
		}
}

static void lock_node(struct slab_cache *cache, struct slab_node *node)
{
	(void)cache;
	os_lock_for_fork(&node->lock, &node->locked_by_fork);
}

static void unlock_node(struct slab_cache *cache, struct slab_node *node)
{
	(void)cache;
	os_unlock_after_fork(&node->lock, &node->locked_by_fork);
}

/* In the child, the thread that could unlock it does not exist. */
static void reset_unlocked_node(struct slab_cache *cache, struct slab_node *node)
{
	if (!node->locked_by_fork && os_lock_held(&node->lock))
		slab_list_again(cache, node);
}

static void before_fork(void)
{
	housekeeping_lock();
	os_lock(&caches.family);
	os_lock(&caches.lock);
	grace_act_on_locks(os_lock_for_fork);
	os_lock(&groups.lock);
	os_lock(&stock_drains);
	os_lock(&sheaf_drains);
	rcu_any_act_on_locks(os_lock_for_fork);
	sheaf_rcu_act_on_locks(os_lock_for_fork);
	for_each_node(lock_node);
	os_lock(&owners_lock);
	page_lock_all();
	mempool_lock_all();
	os_lock(&shrinkers.lock);
}

static void after_fork(void)
{
	os_unlock(&shrinkers.lock);
	mempool_unlock_all();
	page_unlock_all();
	os_unlock(&owners_lock);
	for_each_node(unlock_node);
	sheaf_rcu_act_on_locks(os_unlock_after_fork);
	rcu_any_act_on_locks(os_unlock_after_fork);
	os_unlock(&sheaf_drains);
	os_unlock(&stock_drains);
	os_unlock(&groups.lock);
	grace_act_on_locks(os_unlock_after_fork);
	os_unlock(&caches.lock);
	os_unlock(&caches.family);
	housekeeping_unlock();
}

/* The child may have no counters: os_after_fork() has reported that. Before anything counts in
 * them. */
static void stop_counting(void)
{
	for (struct kmem_cache *s = caches.first; s; s = s->next)
		if (s->sheaf.slab.counted) {
			s->sheaf.slab.counted = NULL;
			sheaf_begin_counts(&s->sheaf);
			cache_choose_calls(s);
		}
}

static void after_fork_in_child(void)
{
	os_after_fork();
	sheaf_budget_after_fork();
	if (!os.counting)
		stop_counting();
	housekeeping_in_child();
	for_each_node(reset_unlocked_node);
	caches.fork_lost += sheaf_rcu_reset_in_child();
	mempool_in_child();
	group_after_fork();
	after_fork();
	shrinkers_in_child();
	caches.forked = 1;
	grace_after_fork();
	rcu_any_in_child();
	list_after_fork();
	page_forget_returning();
	if (slab_marked_after_fork())
		for_each_node(slab_expect_strays);
	destroyed_stats_forget();
	for (struct kmem_cache *s = caches.first; s; s = s->next) {
		/* A vanished thread may have been creating it. Only changes are written: a cache
		 * that is not written stays in the pages that the parent has. */
		if (s->rcu_begun && !s->sheaf.rcu)
			s->rcu_begun = 0;
		caches.fork_lost += sheaf_after_fork(&s->sheaf);
		if (slab_rest(&s->sheaf.slab)->shrinking)
			slab_rest(&s->sheaf.slab)->shrinking = 0;
		if (s->sheaf.slab.extra && debug_of(&s->sheaf.slab)->resting)
			debug_of(&s->sheaf.slab)->resting = 0;
	}
	account_after_fork();
	quarantine_after_fork();
	os_reports_after_fork();
	os_report_kept();
	os_callback_forked();
	os_channel_after_fork();
}

static bool initialise(void)
{
	if (os.nr_rows == 0)
		os_init();
	/* They allocate memory: no later call could say why there is none. */
	if (!page_init() || !rows_init() || !idle_init() || !sheaf_budget_init())
		return false;
	page_set_limits((size_t)os_options.soft_limit << 20, (size_t)os_options.hard_limit << 20);
	if (*os_options.slab_debug)
		debug_parse(os_options.slab_debug);
	tools_explain_by(debug_explain);
	publish_process();
	decay_time.last = os_now_ms();
	return true;
}

static void handle_fork(void)
{
	os_store_release(&caches.fork_handled,
			 pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0);
}

void caches_handle_forks(void)
{
	if (!os_load_acquire(&caches.fork_handled))
		pthread_once(&fork_once, handle_fork);
}

/* Before other constructors, if possible: fork handlers registered before ours run inside ours,
 * with our locks held, and must not allocate then. */
static __attribute__((constructor(101))) void when_loaded(void)
{
	caches_handle_forks();
	os_register_early();
	os_stay_loaded();
}

static void report_at_exit(void)
{
	if (os_options.stats || os_options.stats_json)
		stats_at_exit();
	if (os_options.leaks)
		leaks_at_exit();
	if (os_options.profile_leaks)
		profile_leaks_at_exit();
	/* Nobody will take the objects in quarantine and find that something was written to
	 * them. */
	if (quarantine_bytes()) {
		quarantine_drain(NULL, true);
		os_report_kept();
	}
	os_names_report(&debug_blocks, "slab_debug: no cache");
	os_names_report(&os_capacities, "sheaf_capacity: no cache with sheaves");
}

/* After all others, which may still free objects. Without use, nothing of `os` is read. */
static __attribute__((destructor(101))) void at_exit(void)
{
	os_callback_unset();
	if (os_load_acquire(&caches.ready))
		report_at_exit();
	os_misuse_left_out();
	os_should_fail_end();
	if ((caches.ready || caches.warned_memory) && os.counting)
		os_counters_end();
}

/* Once, because each call tries again. */
static OS_COLD void report_no_memory(void)
{
	char why[200];

	if (os_exchange(&caches.warned_memory, 1))
		return;
	os_refusal(why, sizeof(why));
	os_report_later("the library cannot start, and no cache can be created: %s", why);
}

bool caches_ready(void)
{
	bool begun = false;

	if (os_load_acquire(&caches.ready))
		return true;
	OS_KEEP_ERRNO;
	/* Before the lock is first taken: a child that inherited a locked lock could never
	 * continue. */
	caches_handle_forks();
	os_lock(&caches.lock);
	if (!caches.ready) {
		begun = caches.fork_handled && initialise();
		if (begun)
			os_store_release(&caches.ready, 1);
		else
			report_no_memory();
	}
	os_unlock(&caches.lock);
	if (begun) {
		os_sink_open();
		if (os_options.stats_fd > STDERR_FILENO)
			stats_begin();
		if (os_options.control)
			os_channel_open();
	}
	os_report_kept();
	if (begun)
		os_report_start();
	return os_load_acquire(&caches.ready);
}

SHEAF_PUBLIC int sheaf_set_report(void (*report)(void *data, const char *text, size_t length),
				  void *data, struct sheaf_report_to *before)
{
	struct sheaf_report_to unused;

	if (!before)
		before = &unused;
	return os_callback_set(report, data, &before->report, &before->data) ? 0 : -EBUSY;
}
