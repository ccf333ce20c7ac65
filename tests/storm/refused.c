/* SPDX-License-Identifier: MIT */
/*
 * A storm with refusals: the mix of all calls (mix.h), with each set of options below, while 2 and
 * 20 of 100 points fail where something may (os/should_fail.h). Any allocation may return NULL
 * then; no object may be lost, doubled or charged wrong, and no report may blame the program.
 *
 *   refused [--rounds N] [--seed N] [SET]     N operations of each thread; one set of options
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kit/by_hand.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/refuse_some.h"
#include "storm/mix.h"

enum {
	THREADS = 4
};

static const char *const sets[] = {
	"backend=rseq",
	"backend=trylock",
	"backend=rseq;stats=live",
	"backend=trylock;stats=live;numa=fake=2",
	"hardened",
	"hardened;init_on_alloc=1;init_on_free=1;numa=fake=4",
	"slab_debug=FZPU",
	"slab_debug=FZPUQ;slab_quarantine=1",
	"slab_debug=G;slab_guard=8",
	"slab_debug=S;slab_sample=4096;slab_guard=8",
	"slab_debug=A;failslab_probability=20",
	"hard_limit=8",
	"soft_limit=1;hard_limit=12;numa=fake=2",
	"decay=0",
	"decay=1;background",
	"numa=fake=4;slab_strict_numa",
	"slub_tiny;slab_freelist_random",
	"backend=trylock;sheaf_budget=1;slab_max_order=0;random_kmalloc_caches=4",
};

#define NR_SETS (sizeof(sets) / sizeof(*sets))

static uint64_t rounds = 1500;
static unsigned int at_work;
static void *work(void *data)
{
	struct mix_worker *w = data;

	for (uint64_t i = 0; i < rounds; i++)
		mix_step(w);
	mix_finish(w);
	__atomic_fetch_sub(&at_work, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void storm(unsigned int percent)
{
	static struct mix_worker workers[THREADS];
	pthread_t threads[THREADS];

	refuse_begin(percent);
	at_work = THREADS;
	for (unsigned int i = 0; i < THREADS; i++) {
		workers[i] = (struct mix_worker){.number = i, .seed = mix.seed * (i + 2) | 1};
		CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
	}
	while (__atomic_load_n(&at_work, __ATOMIC_RELAXED)) {
		by_hand_pass();
		usleep(100);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	refuse_begin(0);
	kvfree_rcu_barrier();
	mix_verify();
}

static const char *options;
static int said; /* what the process writes to standard error */

/* What fails at the beginning is tried again until it succeeds. */
static void run_set(void)
{
	setenv("SHEAF_OPTIONS", options, 1);
	dup2(said, STDERR_FILENO);
	refuse_some.seed = mix.seed;
	refuse_begin(20);
	while (sheaf_rcu_register(&by_hand_ops))
		;
	mix_begin();
	storm(2);
	storm(20);
	storm(2);
	mix_end();
	printf("%-75s %6llu of %llu points failed\n", options,
	       (unsigned long long)refuse_some.refused, (unsigned long long)refuse_some.points);
	fflush(stdout);
}

/* Nothing is the program's fault: reports of misuse have stacks. */
static bool is_blamed(const char *text)
{
	return strstr(text, "called from") || strstr(text, "BUG");
}

static bool run(const char *set)
{
	static char text[1 << 20];
	ssize_t length;
	int status;

	options = set;
	said = memfd_create("said", MFD_CLOEXEC);
	fflush(stdout);
	status = in_child(run_set);
	length = pread(said, text, sizeof(text) - 1, 0);
	text[length < 0 ? 0 : length] = '\0';
	close(said);
	if (!status && !is_blamed(text))
		return true;
	printf("%sSHEAF_OPTIONS=\"%s\": wait status %d\n", text, set, status);
	return false;
}

int main(int argc, char **argv)
{
	struct timespec now;
	int faults = 0, only = -1;

	clock_gettime(CLOCK_REALTIME, &now);
	mix.seed = (uint64_t)now.tv_nsec | 1;
	for (int i = 1; i < argc; i++) {
		if (i + 1 < argc && !strcmp(argv[i], "--rounds"))
			rounds = strtoull(argv[++i], NULL, 0);
		else if (i + 1 < argc && !strcmp(argv[i], "--seed"))
			mix.seed = strtoull(argv[++i], NULL, 0);
		else
			only = atoi(argv[i]);
	}
	for (unsigned int i = 0; i < NR_SETS; i++)
		if (only < 0 || (unsigned int)only == i)
			faults += !run(sets[i]);
	printf("%zu sets of options, %d failed, --rounds %llu --seed %llu\n", NR_SETS, faults,
	       (unsigned long long)rounds, (unsigned long long)mix.seed);
	return faults != 0;
}
