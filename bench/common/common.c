/* SPDX-License-Identifier: MIT */
/* See common.h. */
#include "common.h"

#include <dlfcn.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void usage(const char *program, const struct bench_option *table,
			    const char *about, int status)
{
	FILE *to = status ? stderr : stdout;

	fprintf(to, "usage: %s [OPTION]...\n", program);
	for (; table->name; table++)
		fprintf(to, "  --%s%s\n", table->name,
			table->number ? " N"
			: table->text ? " NAME"
				      : "");
	fprintf(to, "%s", about);
	exit(status);
}

static size_t number(const char *program, const char *text, size_t most)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	if (*end || value < 1 || value > most) {
		fprintf(stderr, "%s: %s is not a number from 1 to %zu\n", program, text, most);
		exit(2);
	}
	return value;
}

void bench_parse(int argc, char **argv, const struct bench_option *table, const char *about)
{
	struct option options[BENCH_OPTIONS_MAX] = {{"help", no_argument, NULL, 'h'}};
	int found, index = 0;

	for (int i = 0; table[i].name; i++)
		options[i + 1] = (struct option){
			table[i].name, table[i].flag ? no_argument : required_argument, NULL, 0};
	while ((found = getopt_long(argc, argv, "", options, &index)) != -1) {
		const struct bench_option *option = &table[index - 1];

		if (found != 0)
			usage(argv[0], table, about, found == 'h' ? 0 : 2);
		if (option->flag)
			*option->flag = true;
		else if (option->text)
			*option->text = optarg;
		else
			*option->number = number(argv[0], optarg, option->most);
	}
	if (optind < argc)
		usage(argv[0], table, about, 2);
}

int bench_choice(const char *program, const char *text, const char *const *list)
{
	for (int i = 0; list[i]; i++)
		if (!strcmp(text, list[i]))
			return i;
	fprintf(stderr, "%s: %s is not one of", program, text);
	for (; *list; list++)
		fprintf(stderr, " %s", *list);
	fprintf(stderr, "\n");
	exit(2);
}

static void die(const char *call)
{
	perror(call);
	exit(1);
}

int bench_cpu(unsigned int n)
{
	static cpu_set_t allowed; /* before any thread was pinned */
	int cpu = 0;

	if (!CPU_COUNT(&allowed) && sched_getaffinity(0, sizeof(allowed), &allowed))
		die("sched_getaffinity");
	n %= (unsigned int)CPU_COUNT(&allowed);
	for (;; cpu++)
		if (CPU_ISSET(cpu, &allowed) && n-- == 0)
			return cpu;
}

void bench_pin(int cpu)
{
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	if (sched_setaffinity(0, sizeof(only), &only))
		die("sched_setaffinity");
}

static double clock_of(clockid_t id)
{
	struct timespec time;

	clock_gettime(id, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

double bench_thread_time(void)
{
	return clock_of(CLOCK_THREAD_CPUTIME_ID);
}

double bench_process_time(void)
{
	return clock_of(CLOCK_PROCESS_CPUTIME_ID);
}

double bench_time(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

size_t bench_resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	size_t pages = 0;

	if (!file || fscanf(file, "%*d %zu", &pages) != 1)
		die("/proc/self/statm");
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

void bench_iterate(size_t iterations, double (*clock)(void), void (*once)(const void *options),
		   const void *options, size_t items)
{
	for (size_t i = 0; i < iterations; i++) {
		double start = clock();

		once(options);
		if (i > 0)
			printf("%.4f\n", (clock() - start) / (double)items);
	}
}

void bench_out_of_memory(void)
{
	static const char text[] = "the allocator ran out of memory\n";

	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

void bench_shuffle(uint32_t *order, size_t n, uint64_t seed)
{
	uint64_t state = seed * BENCH_SEED;

	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (size_t i = n - 1; i > 0; i--) {
		size_t j = (bench_random(&state) >> 11) % (i + 1);
		uint32_t swapped = order[i];

		order[i] = order[j];
		order[j] = swapped;
	}
}

void bench_print_origin(void *call)
{
	Dl_info info;

	if (call && dladdr(call, &info) && info.dli_fname)
		printf("from %s\n", info.dli_fname);
}

long bench_resident_now(void)
{
	static const struct {
		const char *name;
		long sign;
	} counted[] = {{"Rss:", 1}, {"Swap:", 1}, {"LazyFree:", -1}};
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	long bytes = 0, kilobytes;
	char line[128], name[32];

	if (!file)
		return (long)bench_resident();
	while (fgets(line, sizeof(line), file))
		for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
			if (sscanf(line, "%31s %ld", name, &kilobytes) == 2 &&
			    !strcmp(name, counted[i].name))
				bytes += counted[i].sign * kilobytes * 1024;
	fclose(file);
	return bytes;
}
