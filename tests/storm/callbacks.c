/* SPDX-License-Identifier: MIT */
/*
 * A storm of callbacks and signals: the mix of all calls (mix.h) on four nodes, with forks in every
 * callback of the library, handlers that make the calls that handlers may make 300 us after the
 * last one, threads that change their CPU, and groups with limits.
 *
 * A child that was forked in a callback returns from it, finishes the call and, alone, proves that
 * all that it inherited is consistent; then it uses it.
 *
 *   callbacks [--rounds N] [--refuse N] [--seed N]
 *
 * N operations of each thread; N of 100 system calls fail
 */
#include <errno.h>
#include <pthread.h>
#include <sheaf/debug.h>
#include <sheaf/limit.h>
#include <sheaf/shrinker.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kit/by_hand.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/refuse_some.h"
#include "os/report/report.h"
#include "storm/mix.h"

enum {
	THREADS = 4,
	ROUNDS_A_FORK = 400, /* in each callback */
	CHILD_ROUNDS = 200,
	SIGNAL_US = 300,
	FOR_HANDLER = 30 /* objects in a handler's sheaf */
};

struct worker {
	struct mix_worker mix, handler;
	timer_t timer;
	void *box;		  /* an object of the handler, for the thread */
	struct slab_sheaf *sheaf; /* the handler's, while the thread does not have it */
	unsigned int signals;
};

static _Thread_local struct worker *self;
static _Thread_local bool is_child, may_fork;
static _Thread_local pid_t child;

static uint64_t rounds = 3000;
static unsigned int refused;
static struct worker workers[THREADS];
static unsigned int at_work, waiting;
static pthread_barrier_t forked;
static sigset_t signals;
static struct shrinker *shrinker;

/* --- callbacks -------------------------------------------------------------------------------- */

enum callback {
	CONSTRUCTOR,
	REPORT,
	COUNT,
	SCAN,
	RECLAIM,
	EVENT,
	PROVIDER,
	CALLBACKS
};
static const char *const names[CALLBACKS] = {"constructor", "report", "count",	 "scan",
					     "reclaim",	    "event",  "provider"};
static unsigned int forks[CALLBACKS];

static bool forks_now(enum callback which)
{
	return !child && !is_child &&
	       !random_below(&self->mix.seed, which == CONSTRUCTOR ? 200 : 8) &&
	       __atomic_load_n(&forks[which], __ATOMIC_RELAXED) <= rounds / ROUNDS_A_FORK;
}

/* A callback may use the library, fork, and change errno. */
static void in_callback(enum callback which)
{
	if (!self || !may_fork)
		return;
	kfree(kmalloc(64, GFP_NOWAIT | __GFP_ACCOUNT));
	if (forks_now(which)) {
		__atomic_fetch_add(&forks[which], 1, __ATOMIC_RELAXED);
		child = fork();
		CHECK(child >= 0);
		is_child = child == 0;
	}
	errno = ENOTTY;
}

static void in_constructor(void)
{
	in_callback(CONSTRUCTOR);
}

/* Free what lies in a box; false: nothing does. */
static bool free_from_boxes(void)
{
	for (int i = 0; i < MIX_BOXES; i++) {
		void *object = __atomic_exchange_n(&mix.boxes[i], NULL, __ATOMIC_ACQ_REL);

		if (object) {
			mix_unstamp(object);
			kvfree(object);
			return true;
		}
	}
	return false;
}

static bool reclaim(struct kmem_group *group, size_t bytes, void *data)
{
	(void)group, (void)bytes;
	mix_check_data(data);
	in_callback(RECLAIM);
	mix_check_data(data);
	return free_from_boxes();
}

static void event(struct kmem_group *group, enum kmem_group_event what, uint64_t bytes, void *data)
{
	(void)group, (void)what, (void)bytes;
	mix_check_data(data);
	in_callback(EVENT);
	mix_check_data(data);
}

static unsigned long count(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	in_callback(COUNT);
	return MIX_BOXES;
}

static unsigned long scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	in_callback(SCAN);
	return free_from_boxes() ? 1 : SHRINK_STOP;
}

static void on_report(void *data, const char *text, size_t length)
{
	(void)data;
	if (memmem(text, length, "called from", 11) &&
	    !memmem(text, length, "not an object of any cache", 26)) {
		printf("%.*s", (int)length, text);
		mix_fail("a report of misuse", NULL);
	}
	in_callback(REPORT);
}

static void in_call(void)
{
	in_callback(PROVIDER);
}

/* --- signals: what rule R8 of docs/design.md allows ------------------------------------------- */

struct retired {
	struct kvfree_rcu_head rcu;
};

static void arm(const struct worker *w)
{
	const struct itimerspec once = {.it_value.tv_nsec = SIGNAL_US * 1000};

	timer_settime(w->timer, 0, &once, NULL);
}

static void on_signal(int number)
{
	struct worker *w = self;
	struct kmem_cache *s = mix.caches[w->signals % MIX_CACHES];
	void *object;

	(void)number;
	if (w->sheaf && w->signals % 2) {
		unsigned int left = kmem_cache_sheaf_size(w->sheaf);

		object = kmem_cache_alloc_from_sheaf(mix.caches[0], GFP_NOWAIT, w->sheaf);
		if (!object != !left)
			mix_fail("the sheaf of a handler lacks objects", w->sheaf);
	} else if (w->signals % 3) {
		object = kmem_cache_alloc_nolock(s, 0);
		/* If there is no room for the pointer, it is still in use. */
		if (w->signals % 5 == 0 && !kmem_cache_free_rcu_nolock(s, object))
			object = NULL;
	} else {
		object = kmalloc_nolock(8u << w->signals / 3 % 9, __GFP_ZERO, NUMA_NO_NODE);
	}
	if (object) {
		if (!sheaf_owns(object))
			mix_fail("not owned", object);
		mix_stamp(&w->handler, object);
		object = __atomic_exchange_n(&w->box, object, __ATOMIC_ACQ_REL);
	}
	if (object) {
		mix_unstamp(object);
		if (w->signals % 4)
			kfree_nolock(object);
		else
			kfree_rcu_nolock((struct retired *)object, rcu);
	}
	if (sheaf_explain_fault(&object, NULL))
		mix_fail("no fault", &object);
	w->signals++;
	arm(w);
}

/* The thread's part: free the object that the handler left, and fill its sheaf again. */
static void serve_handler(struct worker *w)
{
	void *object = __atomic_exchange_n(&w->box, NULL, __ATOMIC_ACQ_REL);
	struct slab_sheaf *sheaf = __atomic_exchange_n(&w->sheaf, NULL, __ATOMIC_ACQ_REL);

	if (object) {
		mix_unstamp(object);
		kfree(object);
	}
	if (!sheaf || !kmem_cache_sheaf_size(sheaf)) {
		kmem_cache_return_sheaf(mix.caches[0], GFP_KERNEL, sheaf);
		sheaf = kmem_cache_prefill_sheaf(mix.caches[0], GFP_KERNEL, FOR_HANDLER);
	}
	__atomic_store_n(&w->sheaf, sheaf, __ATOMIC_RELEASE);
}

static void start_signals(struct worker *w)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2};

	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &w->timer) == 0);
	arm(w);
}

/* --- threads ---------------------------------------------------------------------------------- */

/* The only thread of its process: everything is consistent, and works. */
static void be_child(struct worker *w)
{
	may_fork = false;
	refuse_begin(0);
	mix_verify();
	/* These wait until callbacks have returned, but not for threads that do not exist here. */
	mix_change_groups();
	shrinker_free(shrinker);
	CHECK(sheaf_set_report(NULL, NULL, NULL) == 0);
	refuse_begin(refused);
	for (int i = 0; i < CHILD_ROUNDS; i++)
		mix_step(&w->mix);
	refuse_begin(0);
	by_hand_pass();
	kvfree_rcu_barrier();
	mix_verify();
	_exit(0);
}

static void settle_forks(struct worker *w)
{
	int status;

	if (is_child)
		be_child(w);
	if (!child)
		return;
	while (waitpid(child, &status, 0) < 0)
		CHECK(errno == EINTR);
	child = 0;
	if (status)
		mix_fail("a forked child failed", NULL);
}

/* In the middle, while all threads wait with their objects, a child frees all of these, and nothing
 * may be left. */
static void wait_for_fork(void)
{
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	__atomic_fetch_add(&waiting, 1, __ATOMIC_ACQ_REL);
	pthread_barrier_wait(&forked);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

static void misuse(struct worker *w)
{
	int not_an_object;

	kmem_cache_free(mix.caches[random_below(&w->mix.seed, MIX_CACHES)], &not_an_object);
}

static void finish(struct worker *w)
{
	serve_handler(w);
	kmem_cache_return_sheaf(mix.caches[0], GFP_KERNEL, w->sheaf);
	mix_finish(&w->mix);
}

static void *work(void *data)
{
	struct worker *w = self = data;

	may_fork = true;
	start_signals(w);
	for (uint64_t i = 0; i < rounds; i++) {
		if (i % 8 == 0)
			serve_handler(w);
		if (i % 50 == 0)
			misuse(w);
		if (i % 20 == 0)
			pin(random_below(&w->mix.seed,
					 (unsigned int)sysconf(_SC_NPROCESSORS_ONLN)));
		mix_step(&w->mix);
		settle_forks(w);
		if (i == rounds / 2)
			wait_for_fork();
	}
	may_fork = false;
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	timer_delete(w->timer);
	finish(w);
	__atomic_fetch_sub(&at_work, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void free_all(void)
{
	refuse_begin(0);
	for (int i = 0; i < THREADS; i++)
		finish(&workers[i]);
	mix_end();
}

static void fork_if_all_wait(void)
{
	if (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) != THREADS)
		return;
	waiting = 0;
	if (in_child(free_all))
		mix_fail("objects were lost in a forked child", NULL);
	pthread_barrier_wait(&forked);
}

static void before_fork(void)
{
	pthread_mutex_lock(&by_hand.passing);
	pthread_mutex_lock(&by_hand.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&by_hand.lock);
	pthread_mutex_unlock(&by_hand.passing);
}

static void after_fork_in_child(void)
{
	const pthread_mutex_t passing = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

	pthread_mutex_unlock(&by_hand.lock);
	by_hand.passing = passing;
}

static struct shrinker *make_shrinker(void)
{
	struct shrinker *shrinker;

	while ((shrinker = shrinker_alloc(0, "boxes")) == NULL)
		;
	shrinker->count_objects = count;
	shrinker->scan_objects = scan;
	shrinker_register(shrinker);
	return shrinker;
}

/* Change what the threads' calls will meet. */
static void meddle(unsigned int turn)
{
	by_hand_pass();
	os_misuse_forget();
	CHECK(sheaf_set_report(turn % 4 ? on_report : NULL, NULL, NULL) == 0);
	sheaf_set_limits(turn % 3 ? (size_t)1 << 20 : 0, turn % 5 ? 0 : (size_t)16 << 20);
	if (turn % 16 == 0) {
		shrinker_free(__atomic_exchange_n(&shrinker, NULL, __ATOMIC_ACQ_REL));
		__atomic_store_n(&shrinker, make_shrinker(), __ATOMIC_RELEASE);
	}
	usleep(200);
}

static void storm(void)
{
	pthread_t threads[THREADS];

	shrinker = make_shrinker();
	at_work = THREADS;
	for (unsigned int i = 0; i < THREADS; i++) {
		struct mix_worker one = {.number = i, .seed = mix.seed * (i + 2) | 1};

		workers[i].mix = workers[i].handler = one;
		workers[i].handler.number += THREADS;
		CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
	}
	for (unsigned int turn = 0; __atomic_load_n(&at_work, __ATOMIC_RELAXED); turn++) {
		meddle(turn);
		fork_if_all_wait();
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	shrinker_free(shrinker);
	CHECK(sheaf_set_report(NULL, NULL, NULL) == 0);
	for (unsigned int i = 1; i < THREADS; i++)
		workers[0].signals += workers[i].signals;
	printf("%u signals, forks in", workers[0].signals);
	for (unsigned int i = 0; i < CALLBACKS; i++)
		printf(" %s %u", names[i], forks[i]);
	printf(", --rounds %llu --seed %llu\n", (unsigned long long)rounds,
	       (unsigned long long)mix.seed);
}

int main(int argc, char **argv)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	mix.seed = (uint64_t)now.tv_nsec | 1;
	for (int i = 1; i + 1 < argc; i += 2) {
		uint64_t value = strtoull(argv[i + 1], NULL, 0);

		if (!strcmp(argv[i], "--rounds"))
			rounds = value;
		else if (!strcmp(argv[i], "--refuse"))
			refused = (unsigned int)value;
		else if (!strcmp(argv[i], "--seed"))
			mix.seed = value;
	}
	/* Reports that no callback gets. */
	CHECK(freopen("/dev/null", "w", stderr));
	sigaddset(&signals, SIGUSR2);
	signal(SIGUSR2, on_signal);
	pthread_barrier_init(&forked, NULL, THREADS + 1);
	by_hand.in_call = in_call;
	mix.in_constructor = in_constructor;
	CHECK(sheaf_rcu_register(&by_hand_ops) == 0);
	mix.callbacks.reclaim = reclaim;
	mix.callbacks.event = event;
	mix_begin();
	/* After those of the library, so that its locks are taken later. */
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
	refuse_some.seed = mix.seed;
	refuse_begin(refused);
	storm();
	refuse_begin(0);
	mix_end();
	return 0;
}
