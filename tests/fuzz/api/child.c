/* SPDX-License-Identifier: MIT */
/*
 * Each program runs in a child of its own, because the library cannot be reset. The child's
 * counters of the edges reached return to the fuzzer through shared memory. If the child ends by a
 * signal or hangs, the process ends, after what the child reported.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz/api/model.h"
#include "fuzz/target.h"
#include "kit/clock.h"
#include "kit/process.h"

#if defined(__clang__)
/* The compiler's counters: one for each edge, if there are any. */
extern uint8_t __start___sancov_cntrs[] __attribute__((weak, visibility("hidden")));
extern uint8_t __stop___sancov_cntrs[] __attribute__((weak, visibility("hidden")));
#else
static uint8_t __start___sancov_cntrs[1], *__stop___sancov_cntrs = __start___sancov_cntrs;
#endif

static uint8_t *counters;

static size_t nr_counters(void)
{
	return (size_t)(__stop___sancov_cntrs - __start___sancov_cntrs);
}

/* The child's own forks add theirs. */
static void keep_counters(void)
{
	for (size_t i = 0; i < nr_counters(); i++)
		if (counters[i] < __start___sancov_cntrs[i])
			counters[i] = __start___sancov_cntrs[i];
}

void end_child(void)
{
	keep_counters();
	_exit(0);
}

static void run_in_child(const uint8_t *bytes, size_t size)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
	struct rlimit none = {0, 0};

	for (unsigned int i = 0; i < sizeof(fatal) / sizeof(*fatal); i++)
		signal(fatal[i], SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	setrlimit(RLIMIT_CORE, &none);
	alarm(CHILD_SECONDS);
	clock_stands = true;
	pin(0);
	run_program(bytes, size);
}

/* Reports are shown if the child fails: they go to a file meanwhile. */
static void show(int file)
{
	char text[4096];
	ssize_t n;

	for (off_t at = 0; (n = pread(file, text, sizeof(text), at)) > 0; at += n)
		if (write(STDERR_FILENO, text, (size_t)n) != n)
			break;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int reports = -1;
	int status = 0;
	pid_t child;

	if (!counters) {
		counters = mmap(NULL, nr_counters() + 1, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		reports = memfd_create("reports", MFD_CLOEXEC);
		FUZZ_CHECK(counters != MAP_FAILED && reports >= 0);
	}
	FUZZ_CHECK(ftruncate(reports, 0) == 0 && lseek(reports, 0, SEEK_SET) == 0);
	child = fork();
	FUZZ_CHECK(child >= 0);
	if (!child) {
		if (!getenv("SHOW"))
			dup2(reports, STDERR_FILENO);
		run_in_child(data, size);
	}
	/* libFuzzer's timer interrupts calls. */
	FUZZ_CHECK(TEMP_FAILURE_RETRY(waitpid(child, &status, 0)) == child);
	if (nr_counters()) {
		memcpy(__start___sancov_cntrs, counters, nr_counters());
		memset(counters, 0, nr_counters());
	}
	if (status) {
		show(reports);
		fprintf(stderr, "fuzz-api: the child's wait status is 0x%x\n", (unsigned)status);
		abort();
	}
	return 0;
}
