/* SPDX-License-Identifier: MIT */
/*
 * Every refusal: for each scene, backend and set of options, make the n-th point fail, once and
 * with all that follow, n = 1, 2, ... up to the first run in which nothing fails.
 *
 * Each run is a process of its own, because the library cannot be reset. After the call, caches and
 * groups are verified, errno is what it was, and no report blames the program; the same call
 * succeeds; and when everything is freed, the library has as many blocks of its pool, mappings and
 * descriptors as after a run without a refusal.
 *
 *   refusals [--backend NAME] [--short] [--json] [--scene NAME] [--options TEXT] [--n N]
 *            [--verbose]
 */
#include "refusals.h"

#include <dirent.h>
#include <errno.h>
#include <sheaf/trim.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kit/cache.h"
#include "kit/clock.h"
#include "kit/hooks.h"
#include "kit/process.h"

#define OTHER_ERRNO 4242
#define ROUNDS	    8

struct world w;

enum {
	SIZES = 24 /* of blocks of the pool: from 1 << i bytes on */
};

/* What is left at the end of a run. */
struct left {
	long blocks[SIZES], descriptors, pages;
	struct sheaf_stats all;
};

/* What a run says to the driver. */
static struct run {
	unsigned int points, failed;
	bool returned, ended;
	bool is_left;	      /* something, at the end */
	bool other_machine;   /* the library sees other CPUs, or another backend */
	bool other_addresses; /* than in a run without a refusal */
	int result;
	char first[32]; /* the point that failed first */
	char fault[200];
	struct left left;
} * run;

void fault(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(run->fault, sizeof(run->fault), format, list);
	va_end(list);
	_exit(1);
}

int all_or_nothing(bool all)
{
	return all ? 0 : NOTHING;
}

/* --- which points fail ------------------------------------------------------------------------ */

static struct {
	unsigned int from, to; /* the points that fail; from 1 */
} chosen;

static __thread bool armed;

/* Refused calls of a run. */
static unsigned int rounds = 1;

static bool fails(const char *point)
{
	unsigned int n;

	if (!armed)
		return false;
	n = ++run->points;
	if (n < chosen.from || n >= chosen.to)
		return false;
	if (!run->failed++)
		snprintf(run->first, sizeof(run->first), "%s", point);
	/* What the system does not take back stays. */
	run->other_addresses |= !strcmp(point, "munmap") || !strcmp(point, "mremap");
	run->other_machine |= !strcmp(point, "openat") || !strcmp(point, "sched_getaffinity") ||
			      !strcmp(point, "membarrier");
	return true;
}

/* --- what is left ----------------------------------------------------------------------------- */

static long blocks[SIZES];

static void count_block(const void *block, size_t size, long change)
{
	if (block)
		__atomic_fetch_add(&blocks[63 - __builtin_clzll(size)], change, __ATOMIC_RELAXED);
}

void *__real_pool_alloc(size_t size);
void *__real_pool_alloc_try(size_t size);
void __real_pool_free(void *block, size_t size);
void __real_pool_give_back(void *block, size_t size);
void *__wrap_pool_alloc(size_t size);
void *__wrap_pool_alloc_try(size_t size);
void __wrap_pool_free(void *block, size_t size);
void __wrap_pool_give_back(void *block, size_t size);

void *__wrap_pool_alloc(size_t size)
{
	void *block = __real_pool_alloc(size);

	count_block(block, size, 1);
	return block;
}

void *__wrap_pool_alloc_try(size_t size)
{
	void *block = __real_pool_alloc_try(size);

	count_block(block, size, 1);
	return block;
}

void __wrap_pool_free(void *block, size_t size)
{
	count_block(block, size, -1);
	__real_pool_free(block, size);
}

void __wrap_pool_give_back(void *block, size_t size)
{
	count_block(block, size, -1);
	__real_pool_give_back(block, size);
}

static long count_descriptors(void)
{
	DIR *files = opendir("/proc/self/fd");
	long n = 0;

	while (files && readdir(files))
		n++;
	if (files)
		closedir(files);
	return n;
}

static long count_pages(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = -1;

	if (file && fscanf(file, "%ld", &pages) != 1)
		pages = -1;
	if (file)
		fclose(file);
	return pages;
}

static void look_at_left(struct left *left)
{
	memcpy(left->blocks, blocks, sizeof(blocks));
	left->descriptors = count_descriptors();
	left->pages = count_pages();
	left->all = library();
}

/* --- one run ---------------------------------------------------------------------------------- */

static void verify_cache(struct kmem_cache *s, const char *when)
{
	int faults = kmem_cache_verify(s);

	if (faults)
		fault("%s: kmem_cache_verify() returns %d", when, faults);
}

static void verify(const char *when)
{
	struct kmem_cache *s = NULL;
	size_t used = w.lost;

	while ((s = hook_next_of_kmalloc(s)) != NULL)
		verify_cache(s, when);
	if (kmem_group_verify())
		fault("%s: kmem_group_verify() finds faults", when);
	if (!w.s)
		return;
	verify_cache(w.s, when);
	for (size_t i = 0; i < MOST; i++)
		used += w.p[i] && hook_cache_of(w.p[i]) == w.s;
	if (look(w.s).objects_in_use != used)
		fault("%s: %llu objects in use, not %zu", when,
		      (unsigned long long)look(w.s).objects_in_use, used);
}

static void drop(const struct scene *scene)
{
	for (size_t i = 0; i < MOST; i++) {
		kfree(w.p[i]);
		w.p[i] = NULL;
	}
	if (scene->undo)
		scene->undo();
}

static bool is_promised(const struct scene *scene, int result)
{
	if (!result)
		return true;
	return !scene->never_fails && (result == NOTHING || result == -ENOMEM);
}

static void settle(const struct scene *scene)
{
	if (scene->settle)
		scene->settle();
}

static int make_call(const struct scene *scene, const char *when)
{
	int result;

	if (scene->ready)
		scene->ready();
	errno = OTHER_ERRNO;
	armed = chosen.from;
	result = scene->call();
	armed = false;
	if (errno != OTHER_ERRNO)
		fault("%s: errno is %d", when, errno);
	return result;
}

static void run_scene(const struct scene *scene)
{
	clock_stands = true;
	hook_fail_by(fails);
	if (scene->prepare)
		scene->prepare();
	for (unsigned int i = 0; i < rounds; i++) {
		run->points = 0;
		run->returned = false;
		run->result = make_call(scene, "the call");
		run->returned = true;
		if (!is_promised(scene, run->result))
			fault("it returns %d", run->result);
		settle(scene);
		verify("after it");
		drop(scene);
	}
	chosen.from = 0;
	if (make_call(scene, "the second call"))
		fault("it still fails when nothing is refused");
	settle(scene);
	verify("after the second call");
	drop(scene);
	if (scene->finish)
		scene->finish();
	if (w.s)
		kmem_cache_destroy(w.s);
	kmem_group_put(w.g);
	sheaf_trim(0);
	look_at_left(&run->left);
	run->ended = true;
}

/* --- all runs of a scene ---------------------------------------------------------------------- */

static int said; /* what a run writes to standard error */
static const struct scene *running;

static void in_run(void)
{
	dup2(said, STDERR_FILENO);
	run_scene(running);
}

/* A cache of the library may keep a structure or two from then on, and kmalloc() makes caches when
 * it needs them, in a set chosen at random: few of them are no leak. */
static const char *is_more(const struct left *left, const struct left *usual)
{
	static char text[100];
	long few = rounds / 2;

	for (int i = 0; i < SIZES; i++)
		if (left->blocks[i] > usual->blocks[i] + few) {
			snprintf(text, sizeof(text),
				 "%ld blocks of the pool are left, of %d bytes or more",
				 left->blocks[i] - usual->blocks[i], 1 << i);
			return text;
		}
	if (left->descriptors > usual->descriptors)
		return "descriptors are left";
	if (left->pages > usual->pages + few && !run->other_addresses) {
		snprintf(text, sizeof(text), "%ld pages of addresses are left",
			 left->pages - usual->pages);
		return text;
	}
	if (left->all.caches > usual->all.caches + (uint64_t)few)
		return "caches are left";
	if (left->all.mapped_bytes > usual->all.mapped_bytes)
		return "large blocks are left";
	if (left->all.rcu_bytes > usual->all.rcu_bytes)
		return "retired objects are left";
	return NULL;
}

static void look_at_run(int status, const char *text, const struct left *usual)
{
	const char *what = NULL;

	if (run->fault[0])
		return;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		what = "it waits for ever";
	else if (status || !run->ended)
		what = run->returned ? "the process ends later" : "the process ends in it";
	else if (strstr(text, "called from") || strstr(text, "BUG"))
		what = "a report blames the program";
	else if (usual && (what = is_more(&run->left, usual)) != NULL)
		run->is_left = true;
	if (what)
		snprintf(run->fault, sizeof(run->fault), "%s (wait status %d)", what, status);
}

static bool verbose;

static bool run_once(const struct scene *scene, const char *options, unsigned int from,
		     unsigned int to, const struct left *usual);

/* Something is left: is it more after more calls? On another machine, as the library sees it, other
 * structures are right. */
static bool run_again(const struct scene *scene, const char *options, unsigned int from,
		      unsigned int to, const struct left *usual)
{
	struct run first = *run;
	bool good;

	if (!scene->prepare && first.other_machine)
		return true;
	rounds = ROUNDS;
	good = run_once(scene, options, from, to, usual);
	rounds = 1;
	if (good)
		*run = first;
	return good;
}

/* False after a line about what is wrong. */
static bool run_once(const struct scene *scene, const char *options, unsigned int from,
		     unsigned int to, const struct left *usual)
{
	char text[4000];
	ssize_t length;
	int status;

	*run = (struct run){.points = 0};
	chosen.from = from;
	chosen.to = to;
	running = scene;
	setenv("SHEAF_OPTIONS", options, 1);
	if (ftruncate(said, 0) || lseek(said, 0, SEEK_SET))
		abort();
	status = in_child(in_run);
	length = pread(said, text, sizeof(text) - 1, 0);
	text[length < 0 ? 0 : length] = '\0';
	look_at_run(status, text, usual);
	if (verbose)
		printf("  %s n=%u%s: %s, result %d, %u points, %u failed\n%s", scene->name, from,
		       to > from + 1 ? "+" : "", run->first, run->result, run->points, run->failed,
		       text);
	if (!run->fault[0] ||
	    (rounds == 1 && run->is_left && run_again(scene, options, from, to, usual))) {
		run->fault[0] = '\0';
		return true;
	}
	printf("FAULT %s, SHEAF_OPTIONS=\"%s\" --n %u%s (%s): %s\n%s", scene->name, options, from,
	       to > from + 1 ? "+" : "", run->first, run->fault, text);
	return false;
}

/* What came of the runs of a scene. */
struct outcome {
	const char *name;
	unsigned int points, runs, successes, nothing, errors, faults;
};

static void count(struct outcome *o, bool good)
{
	o->runs++;
	o->faults += !good;
	o->successes += good && run->result == 0;
	o->nothing += good && run->result == NOTHING;
	o->errors += good && run->result < 0;
}

static unsigned int only_n;
static bool is_short;

/* The short run leaves out most of the later points. */
static unsigned int next_point(unsigned int n)
{
	return is_short ? n + 1 + n / 8 : n + 1;
}

static void sweep_from(const struct scene *scene, const char *options, bool all,
		       const struct left *usual, struct outcome *o)
{
	for (unsigned int n = only_n ? only_n : 1;; n = next_point(n)) {
		bool good = run_once(scene, options, n, all ? ~0u : n + 1, usual);

		if (!run->failed && good)
			return;
		count(o, good);
		/* A scene that fails everywhere says enough. */
		if (only_n || o->faults > 20)
			return;
	}
}

static void sweep(const struct scene *scene, const char *options, struct outcome *o)
{
	struct left usual;

	if (!run_once(scene, options, ~0u, ~0u, NULL)) {
		o->faults++;
		return;
	}
	if (run->result) {
		printf("FAULT %s, SHEAF_OPTIONS=\"%s\": it fails with nothing refused\n",
		       scene->name, options);
		o->faults++;
		return;
	}
	usual = run->left;
	o->points += run->points;
	sweep_from(scene, options, false, &usual, o);
	if (!scene->once)
		sweep_from(scene, options, true, &usual, o);
}

/* --- everything ------------------------------------------------------------------------------- */

static const char *const sets[] = {
	"",
	"stats=live",
	"numa=fake=2",
	"hardened;random_kmalloc_caches=2",
	"hard_limit=64",
	"slub_tiny",
	"slab_debug=FZPU",
	"slab_debug=FZPUQ;slab_quarantine=1",
	"slab_debug=G;slab_guard=8",
	"slab_debug=S;slab_sample=1;slab_guard=8",
};

static const char *backend = "rseq", *only_scene, *only_options;
static bool json;
static unsigned int faults, scenes;

static void sweep_sets(const struct scene *scene)
{
	struct outcome o = {.name = scene->name};
	char options[200];

	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
		const char *set = only_options	   ? only_options
				  : scene->options ? scene->options
						   : sets[i];

		snprintf(options, sizeof(options), "backend=%s%s%s", backend, *set ? ";" : "", set);
		sweep(scene, options, &o);
		if (only_options || scene->options || is_short)
			break;
	}
	if (json)
		printf("%s\n    {\"call\": \"%s\", \"points\": %u, \"runs\": %u, \"success\": %u, "
		       "\"null\": %u, \"error\": %u, \"faults\": %u}",
		       scenes ? "," : "", o.name, o.points, o.runs, o.successes, o.nothing,
		       o.errors, o.faults);
	else
		printf("%-44s %6u %6u %6u %6u %6u %6u\n", o.name, o.points, o.runs, o.successes,
		       o.nothing, o.errors, o.faults);
	fflush(stdout);
	scenes++;
	faults += o.faults;
}

static void sweep_table(const struct scene *scene)
{
	for (; scene->name; scene++)
		if (!only_scene || strstr(scene->name, only_scene))
			sweep_sets(scene);
}

static void read_arguments(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--short")) {
			is_short = true;
			continue;
		}
		if (!strcmp(argv[i], "--json")) {
			json = true;
			continue;
		}
		if (!strcmp(argv[i], "--verbose")) {
			verbose = true;
			continue;
		}
		if (!strcmp(argv[i], "--backend"))
			backend = value;
		else if (!strcmp(argv[i], "--scene"))
			only_scene = value;
		else if (!strcmp(argv[i], "--options"))
			only_options = value;
		else if (!strcmp(argv[i], "--n"))
			only_n = (unsigned int)atoi(value);
		i++;
	}
}

int main(int argc, char **argv)
{
	read_arguments(argc, argv);
	run = mmap(NULL, sizeof(*run), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	said = memfd_create("said", MFD_CLOEXEC);
	if (json)
		printf("{\"backend\": \"%s\", \"calls\": [", backend);
	else
		printf("%-44s %6s %6s %6s %6s %6s %6s\n", "call", "points", "runs", "succ.", "NULL",
		       "error", "faults");
	sweep_table(slab_scenes);
	sweep_table(block_scenes);
	sweep_table(process_scenes);
	if (json)
		printf("\n]}\n");
	return faults || !scenes;
}
