/* SPDX-License-Identifier: MIT */
/*
 * Target: the whole public interface. An input is a program: its first byte chooses a backend and
 * options, and the others choose steps and their arguments. After each step errno is unchanged, a
 * wrong call was reported, and a right one was not; model.h has what else must be true.
 *
 * With SHOW in the environment, each step is printed.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/api/model.h"
#include "fuzz/target.h"
#include "kit/hooks.h"
#include "kit/options.h"

enum {
	MAX_STEPS = 300,
	MAX_TABLE = 512
};

struct program program;

static struct {
	struct fuzz_bytes bytes;
	const struct step *table[MAX_TABLE];
	unsigned int nr_table, reports;
	const char *step;
	bool may_report, must_report, show;
} run;

/* --- options ---------------------------------------------------------------------------------- */

/* Each with both backends. What takes effect only after long times or at random is left out. */
static const char *const options[] = {
	"",
	"stats=live",
	"numa=fake=2",
	"hardened",
	"slab_debug=FZPU",
	"",
	"slub_tiny",
	"stats;numa=fake=2",
	"slab_debug=FZPUQ;slab_quarantine=1",
	"slab_debug=S;slab_sample=1",
	"slab_debug=S;slab_sample=3000",
	"slab_debug=G",
	"init_on_alloc=1;init_on_free=1",
	"slab_check_free",
	"slab_check_double;stats=live",
	"slab_freelist_hardened;slab_freelist_random",
	"random_kmalloc_caches=4",
	"slab_nomerge;index=mm_cid",
	"slab_strict_numa;numa=fake=2",
	"slab_debug=A;failslab_probability=20",
	"slab_debug=FZPU,c*",
	"slab_debug=F;slab_nomerge;numa=fake=2",
	"rcu_limit=1",
	"soft_limit=4",
	"hard_limit=24",
	"hard_limit=8;slab_max_order=0",
	"slab_max_order=5;slab_min_objects=64",
	"slab_debug=S;slab_sample=500;stats;numa=fake=2",
	"hardened;init_on_free=1;numa=fake=2",
	"slab_debug=Q",
	"slub_tiny;slab_debug=FZ",
	"index=mm_cid;stats=live",
};

static void choose_options(void)
{
	unsigned int choice = byte();
	char text[256];

	/* A grace period lasts as long as the program; a report would be right. */
	snprintf(text, sizeof(text), "rcu_stall=3600000;backend=%s;%s",
		 choice & 1 ? "rseq" : "trylock",
		 options[choice / 2 % (sizeof(options) / sizeof(*options))]);
	setenv("SHEAF_OPTIONS", text, 1);
	if (run.show)
		fprintf(stderr, "%s\n", text);
	/* Type-stable caches have no guard pages. */
	program.all_checked = checks_free() || (has_slab_debug() && !has_debug_letter('S') &&
						!has_debug_letter('G') && !has_debug_letter('A') &&
						!strstr(text, ",c*"));
	program.plain = !has_slab_debug();
}

/* --- bytes ------------------------------------------------------------------------------------ */

unsigned int byte(void)
{
	return fuzz_byte(&run.bytes);
}

unsigned int below(unsigned int n)
{
	unsigned int value = byte();

	return n > 256 ? (value << 8 | byte()) % n : value % n;
}

unsigned int count(unsigned int most)
{
	unsigned int value = byte();

	return 1 + (value < 160 ? value % 4 : value) % most;
}

/* Near powers of two, up to 4 MiB; small ones most of the time. */
size_t some_size(void)
{
	unsigned int value = byte(), power = value % 16;

	if (value >= 200)
		power = 8 + value % 14;
	return ((size_t)8 << power) + below(80) * ((size_t)1 << power) / 8 - 8 * (value % 3 == 0);
}

/* --- what is wrong ---------------------------------------------------------------------------- */

void fail(const char *format, ...)
{
	va_list list;

	fprintf(stderr, "fuzz-api: step %u (%s), thread %u, SHEAF_OPTIONS='%s': ", program.steps,
		run.step, program.thread, getenv("SHEAF_OPTIONS"));
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	abort();
}

void may_report(void)
{
	run.may_report = true;
}

void must_report(void)
{
	run.may_report = run.must_report = true;
}

static void check_step(void)
{
	int error = errno;
	unsigned int reports;

	kmem_group_put(NULL); /* writes reports that wait */
	reports = hook_reports();
	if (error != ERRNO)
		fail("errno is %d", error);
	if (reports != run.reports && !run.may_report && !memory_is_limited())
		fail("a right call was reported");
	if (reports == run.reports && run.must_report)
		fail("a wrong call was not reported");
	run.reports = reports;
}

/* --- steps ------------------------------------------------------------------------------------ */

static void add_steps(const struct step *steps)
{
	for (; steps->run; steps++)
		for (unsigned int i = 0; i < steps->weight; i++) {
			WANT(run.nr_table < MAX_TABLE);
			run.table[run.nr_table++] = steps;
		}
}

static void check_step_all(void)
{
	may_report(); /* a failed allocation of the check itself */
	check_all();
}

static const struct step own_steps[] = {{"check", check_step_all, 2}, {NULL, NULL, 0}};

static void make_table(void)
{
	add_steps(object_steps);
	add_steps(retire_steps);
	add_steps(block_steps);
	add_steps(cache_steps);
	add_steps(sheaf_steps);
	add_steps(group_steps);
	add_steps(pool_steps);
	add_steps(process_steps);
	add_steps(thread_steps);
	add_steps(misuse_steps);
	add_steps(own_steps);
}

static void one_step(void)
{
	const struct step *step = run.table[below(run.nr_table)];

	run.may_report = run.must_report = false;
	run.step = step->name;
	program.steps++;
	errno = ERRNO;
	if (run.show)
		fprintf(stderr, "%u: %s\n", program.steps, step->name);
	step->run();
	check_step();
}

void run_steps(void)
{
	while (run.bytes.left && program.steps < MAX_STEPS && !thread_ends())
		one_step();
}

void finish(void)
{
	run.step = "end";
	run.may_report = true;
	errno = ERRNO;
	finish_process();
	end_child();
}

void run_program(const uint8_t *bytes, size_t size)
{
	run.bytes = (struct fuzz_bytes){bytes, size};
	run.show = getenv("SHOW") != NULL;
	choose_options();
	make_table();
	run.step = "begin";
	errno = ERRNO;
	begin_retiring();
	WANT(errno == ERRNO);
	run.reports = hook_reports();
	run_steps();
	finish();
}
