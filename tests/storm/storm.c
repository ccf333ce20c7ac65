/* SPDX-License-Identifier: MIT */
/*
 * The storm: threads that allocate, free, hand objects to each other and change CPUs, while a
 * timer's signals abort their sections and one thread shrinks and changes every setting.
 *
 * Every live object carries its owner's stamp in its first word and the stamp's complement in its
 * last. A thread that gets an object with such a pair has found a double allocation; one that frees
 * an object without its own stamp has found a write by another owner. At the end everything is
 * freed, verify must find nothing and shrink must leave nothing.
 *
 *   storm [--rounds N] [--threads N] [--seed N] [--profile N]       N rounds of each thread
 *
 * --profile: that thread also switches the heap profile on, with several means, and off, N of ten
 * times. At the end no sample may be in use.
 */
#include <errno.h>
#include <pthread.h>
#include <sheaf/slab.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cache/sampling.h"
#include "kit/objects.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/sanitizers.h"
#include "os/machine.h"

enum {
	MAX_THREADS = 64,
	NR_CACHES = 6,
	MAX_HELD = 600,
	MAX_BULK = 100,
	NR_BOXES = 64
};

struct worker {
	pthread_t thread;
	unsigned int number;
	uint64_t seed, sequence;
	unsigned int held[NR_CACHES];
	uint64_t *objects[NR_CACHES][MAX_HELD];
};

static struct kmem_cache *caches_under_storm[NR_CACHES];
static size_t sizes[NR_CACHES] = {16, 64, 200, 1000, 4096, 96};
static uint64_t *boxes[NR_CACHES][NR_BOXES]; /* the mailbox: objects on their way */
static uint64_t rounds = 4000, seed = 1;
static unsigned int at_work, profile;

static void fail(const char *what, size_t size, const void *object)
{
	fprintf(stderr, "storm: %s: object %p of %zu bytes; --seed %llu\n", what, object, size,
		(unsigned long long)seed);
	abort();
}

static void stamp(struct worker *w, unsigned int c, uint64_t *object)
{
	if (!stamp_put(object, sizes[c], w->number, w->sequence++))
		fail("handed out twice", sizes[c], object);
	if ((uintptr_t)object % 8)
		fail("not aligned", sizes[c], object);
}

/* Before an object is freed: it must carry a stamp, and carries none afterwards. */
static void unstamp(unsigned int c, uint64_t *object)
{
	if (!stamp_remove(object, sizes[c]))
		fail("overwritten while live", sizes[c], object);
}

static void keep(struct worker *w, unsigned int c, uint64_t *object)
{
	w->objects[c][w->held[c]++] = object;
}

static uint64_t *pick(struct worker *w, unsigned int c)
{
	unsigned int i = random_below(&w->seed, w->held[c]);
	uint64_t *object = w->objects[c][i];

	w->objects[c][i] = w->objects[c][--w->held[c]];
	return object;
}

static void take(struct worker *w, unsigned int c)
{
	static const gfp_t flags[] = {GFP_KERNEL, GFP_NOWAIT, GFP_ATOMIC, GFP_KERNEL | __GFP_ZERO};
	struct kmem_cache *s = caches_under_storm[c];
	unsigned int how = random_below(&w->seed, 6);
	uint64_t *object;

	if (w->held[c] == MAX_HELD)
		return;
	if (how < 4)
		object = kmem_cache_alloc(s, flags[how]);
	else if (how == 4)
		object = kmem_cache_alloc(s, GFP_KERNEL);
	else
		object = kmem_cache_alloc_node(s, GFP_KERNEL, (int)random_below(&w->seed, 3) - 1);
	if (!object)
		fail("no memory", sizes[c], object);
	stamp(w, c, object);
	keep(w, c, object);
}

static void give(struct worker *w, unsigned int c)
{
	uint64_t *object;

	if (!w->held[c])
		return;
	object = pick(w, c);
	unstamp(c, object);
	kmem_cache_free(caches_under_storm[c], object);
}

static void take_bulk(struct worker *w, unsigned int c)
{
	unsigned int n = random_below(&w->seed, MAX_BULK) + 1;
	void *p[MAX_BULK];

	if (w->held[c] + n > MAX_HELD)
		return;
	if (kmem_cache_alloc_bulk(caches_under_storm[c], GFP_KERNEL, n, p) != (int)n)
		fail("no memory", sizes[c], NULL);
	for (unsigned int i = 0; i < n; i++) {
		stamp(w, c, p[i]);
		keep(w, c, p[i]);
	}
}

static void give_bulk(struct worker *w, unsigned int c)
{
	unsigned int n = random_below(&w->seed, MAX_BULK) + 1;
	void *p[MAX_BULK];

	n = n < w->held[c] ? n : w->held[c];
	for (unsigned int i = 0; i < n; i++) {
		p[i] = pick(w, c);
		unstamp(c, p[i]);
	}
	kmem_cache_free_bulk(n % 2 ? caches_under_storm[c] : NULL, n, p);
}

/* A worst case of n objects, of which some are needed. */
static void take_prefilled(struct worker *w, unsigned int c)
{
	unsigned int n = random_below(&w->seed, MAX_BULK) + 1, used = random_below(&w->seed, n + 1);
	struct kmem_cache *s = caches_under_storm[c];
	struct slab_sheaf *sheaf;

	if (w->held[c] + used > MAX_HELD)
		return;
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, n);
	if (!sheaf)
		fail("no memory", sizes[c], NULL);
	for (unsigned int i = 0; i < used; i++) {
		uint64_t *object = kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT, sheaf);

		if (!object)
			fail("a prefilled sheaf lacks objects", sizes[c], NULL);
		stamp(w, c, object);
		keep(w, c, object);
	}
	kmem_cache_return_sheaf(s, n % 2 ? GFP_KERNEL : 0, sheaf);
}

/* Leave an object for any other thread, and take the one that is there. */
static void exchange(struct worker *w, unsigned int c)
{
	uint64_t **box = &boxes[c][random_below(&w->seed, NR_BOXES)];
	uint64_t *object = w->held[c] ? pick(w, c) : NULL;

	object = __atomic_exchange_n(box, object, __ATOMIC_ACQ_REL);
	if (!object)
		return;
	unstamp(c, object);
	kmem_cache_free(caches_under_storm[c], object);
}

static void *work(void *data)
{
	struct worker *w = data;

	errno = 4242;
	for (uint64_t i = 0; i < rounds; i++) {
		unsigned int c = random_below(&w->seed, NR_CACHES);
		unsigned int what = random_below(&w->seed, 100);

		/* Waves, so that sheaves and barns run empty and full. */
		if (what < 70)
			for (unsigned int n = random_below(&w->seed, 100); n > 0; n--)
				(what < 35 ? take : give)(w, c);
		else if (what < 80)
			take_bulk(w, c);
		else if (what < 84)
			give_bulk(w, c);
		else if (what < 88)
			take_prefilled(w, c);
		else if (what < 98)
			exchange(w, c);
		else
			pin(random_below(&w->seed, os.nr_cpus));
		if (errno != 4242 && what < 98 && !HAS_TSAN)
			fail("errno was changed", sizes[c], NULL);
		errno = 4242;
	}
	for (unsigned int c = 0; c < NR_CACHES; c++)
		while (w->held[c])
			give(w, c);
	__atomic_fetch_sub(&at_work, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void switch_profile(uint64_t *random)
{
	static const uint32_t means[] = {PROFILE_LEAST, 5 * PROFILE_LEAST, PROFILE_MEAN};
	unsigned int which = random_below(random, 5);

	if (which > 2)
		sampling_end();
	else if (!sampling_begin(means[which], PROFILE_WANTED))
		fail("no memory for samples", 0, NULL);
}

/* Also of means that were switched off: what they sampled was freed like all other objects. */
static unsigned long long all_samples(void)
{
	unsigned long long all = 0;

	for (struct profile_row *row = profile_next(NULL); row; row = profile_next(row)) {
		if (row->live.samples || row->live.bytes || row->freed != row->all.samples)
			fail("a sample is in use or lost", row->size, NULL);
		all += row->all.samples;
	}
	return all;
}

static void meddle(uint64_t *random)
{
	static const unsigned int capacities[] = {1, 2, 7, 28, 60, 60, 300};
	unsigned int c = random_below(random, NR_CACHES);

	if (random_below(random, 10) < profile)
		switch_profile(random);
	switch (random_below(random, 4)) {
	case 0:
		kmem_cache_shrink(caches_under_storm[c]);
		break;
	case 1:
		if (c != NR_CACHES - 1)
			kmem_cache_set_sheaf_capacity(caches_under_storm[c],
						      capacities[random_below(random, 7)]);
		break;
	case 2:
		kmem_cache_set_min_partial(caches_under_storm[c], random_below(random, 20));
		if (c != NR_CACHES - 1)
			kmem_cache_set_barn(caches_under_storm[c], random_below(random, 5000),
					    random_below(random, 2) ? 1 : 1 << 20);
		break;
	default: {
		struct kmem_cache *s = kmem_cache_create("brief", 72, NULL, SLAB_NO_MERGE);

		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
		kmem_cache_destroy(s);
	}
	}
	usleep(random_below(random, 2000));
}

static void on_timer(int number)
{
	(void)number;
}

static void start_timer(void)
{
	struct itimerval every = {{0, 1000}, {0, 1000}};
	struct sigaction action = {.sa_flags = SA_RESTART};

	action.sa_handler = on_timer;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

static void make_caches(void)
{
	struct kmem_cache_args args = {.sheaf_capacity = 100};

	for (unsigned int c = 0; c < NR_CACHES; c++) {
		bool bare = c == NR_CACHES - 1;

		caches_under_storm[c] =
			kmem_cache_create("storm", sizes[c], c == 2 ? &args : NULL,
					  SLAB_NO_MERGE | (bare ? SLAB_NO_SHEAVES : 0));
		if (!caches_under_storm[c])
			fail("no cache", sizes[c], NULL);
	}
}

static void settle(void)
{
	for (unsigned int c = 0; c < NR_CACHES; c++) {
		struct kmem_cache *s = caches_under_storm[c];

		for (unsigned int i = 0; i < NR_BOXES; i++)
			if (boxes[c][i]) {
				unstamp(c, boxes[c][i]);
				kmem_cache_free(s, boxes[c][i]);
			}
		if (kmem_cache_verify(s))
			fail("verify found faults", sizes[c], NULL);
		if (kmem_cache_shrink(s))
			fail("objects were lost: shrink left slabs", sizes[c], NULL);
		kmem_cache_destroy(s);
	}
}

int main(int argc, char **argv)
{
	static struct worker workers[MAX_THREADS];
	unsigned long long meddled = 0;
	unsigned int threads = 8;
	struct timespec now;
	uint64_t random;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = (uint64_t)now.tv_nsec | 1;
	for (int i = 1; i + 1 < argc; i += 2) {
		unsigned long value = strtoul(argv[i + 1], NULL, 0);

		if (!strcmp(argv[i], "--rounds"))
			rounds = value;
		else if (!strcmp(argv[i], "--threads"))
			threads = value < MAX_THREADS ? (unsigned int)value : MAX_THREADS;
		else if (!strcmp(argv[i], "--seed"))
			seed = value | 1;
		else if (!strcmp(argv[i], "--profile"))
			profile = (unsigned int)value;
	}
	random = seed;
	make_caches();
	start_timer();
	at_work = threads;
	for (unsigned int i = 0; i < threads; i++) {
		workers[i].number = i;
		workers[i].seed = seed * (i + 2) | 1;
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	while (__atomic_load_n(&at_work, __ATOMIC_RELAXED)) {
		meddle(&random);
		meddled++;
	}
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	settle();
	printf("%llu rounds, meddled with %llu times, %llu samples, --seed %llu\n",
	       (unsigned long long)(rounds * threads), meddled, all_samples(),
	       (unsigned long long)seed);
	return 0;
}
