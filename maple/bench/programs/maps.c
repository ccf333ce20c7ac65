/* SPDX-License-Identifier: MIT */
/*
 * The benchmark of real address-space histories: each thread makes the calls of a recording of
 * `sheaf record-maps` on spaces of its own, again and again. All spaces' VMAs and nodes come from
 * two caches. A recording may be a directory: then its recordings take turns, and each thread
 * begins with a different one.
 *
 * Prints lines for the `sheaf` command: those of common/threads.h; a "pair" is a call. --capacity:
 * the capacity of the sheaves of both caches.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/common.h"
#include "common/threads.h"
#include "vma/replay/history.h"
#include "vma/spaces.h"

#define THREADS_MAX 4096
#define CALLS	    32 /* between checks for the end */

struct options {
	size_t threads, capacity, window, windows;
	const char *recording;
};

static struct options options = {.threads = 1, .window = 3, .windows = 60};
static struct recording *recordings;
static size_t nr_recordings;

static const struct bench_option table[] = {
	{"threads", &options.threads, THREADS_MAX, NULL, NULL},
	{"capacity", &options.capacity, 4096, NULL, NULL},
	{"recording", NULL, 0, &options.recording, NULL},
	{"window", &options.window, 60000, NULL, NULL},
	{"windows", &options.windows, 100000, NULL, NULL},
	{NULL, NULL, 0, NULL, NULL},
};

static _Noreturn void die(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(1);
}

static void read_all(const char *path)
{
	char pattern[4096], error[ERROR_ROOM];
	struct stat file;
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s%s", path,
		 !stat(path, &file) && S_ISDIR(file.st_mode) ? "/*.maps" : "");
	if (glob(pattern, GLOB_NOCHECK, NULL, &found))
		die("out of memory");
	nr_recordings = found.gl_pathc;
	recordings = bench_room(nr_recordings * sizeof(*recordings));
	for (size_t i = 0; i < nr_recordings; i++)
		if (!recording_read(&recordings[i], found.gl_pathv[i], error))
			die(error);
	globfree(&found);
}

/* Replay one recording from beginning to end, unless it is time to stop. */
static void run_one(struct bench_thread *thread, struct history *history)
{
	const struct recording *recording = history->recording;
	size_t calls = 0;

	for (size_t i = 0; i < recording->nr_ops && bench_goes_on(); i++) {
		const char *why;

		if (!history_is_call(&recording->ops[i]))
			continue;
		why = history_apply(history, i);
		if (why)
			die(why);
		if (++calls == CALLS) {
			bench_did(thread, calls);
			calls = 0;
		}
	}
	bench_did(thread, calls);
	history_reset(history);
}

static void run(struct bench_thread *thread)
{
	struct history *histories = bench_room(nr_recordings * sizeof(*histories));

	for (size_t i = 0; i < nr_recordings; i++)
		if (!history_init(&histories[i], &recordings[i]))
			bench_out_of_memory();
	spaces_thread_begin();
	for (size_t i = thread->index; bench_goes_on(); i++)
		run_one(thread, &histories[i % nr_recordings]);
	spaces_thread_end();
}

int main(int argc, char **argv)
{
	struct bench_work work = {.run = run};

	bench_parse(argc, argv, table,
		    "--recording is wanted: a file or a directory of them\n"
		    "Measure one allocator; `sheaf bench mmap2` runs this.\n");
	if (!options.recording)
		die("which --recording? See --help");
	read_all(options.recording);
	work.threads = (unsigned int)options.threads;
	bench_threads_start(&work);
	spaces_begin((unsigned int)options.capacity);
	bench_threads_run(options.window, options.windows);
	return 0;
}
