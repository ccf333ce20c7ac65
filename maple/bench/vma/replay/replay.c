/* SPDX-License-Identifier: MIT */
/*
 * Replays address-space histories of real programs on the address space of space.h.
 *
 *     sheaf record-maps -o sort.maps -- sort file      record what a program does
 *     replay sort.maps                                 do it again
 *
 * The result is compared with a plain model and with what the kernel had, as check.h says. A
 * difference is reported with the recording's line, and the exit code is 1. Then the recording is
 * replayed again without checks, to measure the time of a call.
 */
#include <urcu.h>

#include <inttypes.h>
#include <sheaf/rcu.h>
#include <stdio.h>
#include <time.h>

#include "check.h"

#define ROUNDS 10

/* --- timing ----------------------------------------------------------------------------------- */

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* The ns of all calls in the fastest round. */
static double time_all(struct history *history)
{
	double best = 0;

	for (int round = 0; round < ROUNDS; round++) {
		double start = now(), took;

		for (size_t i = 0; i < history->recording->nr_ops; i++)
			if (history_is_call(&history->recording->ops[i]))
				history_apply(history, i);
		history_reset(history);
		took = now() - start;
		if (round == 0 || took < best)
			best = took;
	}
	return best;
}

static void report(const struct check *check, double ns)
{
	unsigned int spaces = check->recording->spaces;
	uint64_t calls = 0;

	for (int kind = 0; kind < OP_KINDS; kind++)
		if (kind != OP_MAP && kind != OP_END)
			calls += check->made[kind];
	printf("%s: %" PRIu64 " calls (%" PRIu64 " failed) in %u space%s, at most %lu VMAs; %lu of "
	       "%" PRIu64 " exits compared with the kernel; %.0f ns a call\n ",
	       check->path, calls, check->failed, spaces, spaces == 1 ? "" : "s", check->most_vmas,
	       check->ends, check->made[OP_EXIT], calls ? ns / (double)calls : 0);
	for (int kind = 0; kind < OP_KINDS; kind++)
		if (kind != OP_MAP && kind != OP_END && check->made[kind])
			printf(" %s %" PRIu64, op_names[kind], check->made[kind]);
	printf("\n");
}

static bool replay_file(const char *path)
{
	struct recording recording;
	struct check check = {.path = path, .recording = &recording};
	struct history history;

	if (!recording_read(&recording, path, check.error)) {
		fprintf(stderr, "%s\n", check.error);
		return false;
	}
	if (check_recording(&check) != CHECK_GOOD)
		fprintf(stderr, "%s\n", check.error);
	else if (history_init(&history, &recording)) {
		report(&check, time_all(&history));
		history_free(&history);
	}
	recording_free(&recording);
	return check.verdict == CHECK_GOOD;
}

int main(int argc, char **argv)
{
	bool good = true;

	if (argc < 2) {
		fprintf(stderr, "usage: replay RECORDING...   (of `sheaf record-maps`)\n");
		return 2;
	}
	rcu_register_thread();
	if (sheaf_urcu_register(0))
		return 1;
	for (int i = 1; i < argc; i++)
		good &= replay_file(argv[i]);
	kmem_cache_destroy(vma_cache());
	rcu_unregister_thread();
	return good ? 0 : 1;
}
