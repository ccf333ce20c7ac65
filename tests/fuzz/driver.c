/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target without a fuzzer, with any compiler:
 *
 *   fuzz-TARGET [--runs N] [--seed S] [--longest BYTES] [--keep FOLDER] [FILE|FOLDER]...
 *
 * First the inputs that the files and folders contain, then N that are mutated from these at
 * random. In a build with -Dfuzz=true by gcc, an input that reaches new code is mutated as well,
 * and kept in the folder. The input in use is in the file input-PID, which remains if the program
 * ends in it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/target.h"
#include "kit/check.h"
#include "kit/random.h"

enum {
	PATIENCE = 100, /* seconds for one input, which takes a millisecond or less */
	CODE_BITS = 16,
};

/* Not every target has one. */
#pragma weak LLVMFuzzerInitialize

struct input {
	uint8_t *bytes;
	size_t size;
};

static struct {
	struct input *of;
	size_t n;
} inputs;

static struct {
	uint64_t runs, seed, longest;
	const char *keep;
} wanted = {.runs = 0, .seed = 1, .longest = 1024};

static char kept[32];
static int kept_file;

/* --- code reached ----------------------------------------------------------------------------- */

static uint8_t reached[1 << CODE_BITS];
static size_t nr_reached;

/* gcc calls it at each edge, with -fsanitize-coverage=trace-pc. */
void __sanitizer_cov_trace_pc(void);
#ifndef __clang__
__attribute__((no_sanitize_coverage))
#endif
void __sanitizer_cov_trace_pc(void)
{
	uint64_t at = (uintptr_t)__builtin_return_address(0) * UINT64_C(0x9e3779b97f4a7c15);

	nr_reached += !reached[at >> (64 - CODE_BITS)];
	reached[at >> (64 - CODE_BITS)] = 1;
}

/* --- inputs ----------------------------------------------------------------------------------- */

static void *grown(void *of, size_t size)
{
	void *larger = realloc(of, size ? size : 1);

	CHECK(larger);
	return larger;
}

static void add(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = grown(NULL, size);

	memcpy(copy, bytes, size);
	inputs.of = grown(inputs.of, (inputs.n + 1) * sizeof(*inputs.of));
	inputs.of[inputs.n++] = (struct input){copy, size};
}

static void add_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes = grown(NULL, FUZZ_LONGEST);
	size_t size = file ? fread(bytes, 1, FUZZ_LONGEST, file) : 0;

	if (!file || ferror(file)) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(2);
	}
	fclose(file);
	add(bytes, size);
	free(bytes);
}

/* In the order of their names, so that a seed repeats a run. */
static void add_all(const char *path)
{
	struct dirent **found;
	int n = scandir(path, &found, NULL, alphasort);

	if (n < 0) {
		add_file(path);
		return;
	}
	for (int i = 0; i < n; i++) {
		char name[4096];

		snprintf(name, sizeof(name), "%s/%s", path, found[i]->d_name);
		if (found[i]->d_name[0] != '.')
			add_file(name);
		free(found[i]);
	}
	free(found);
}

static void keep(const uint8_t *bytes, size_t size)
{
	char name[4096];
	FILE *file;

	if (!wanted.keep)
		return;
	snprintf(name, sizeof(name), "%s/%d-%zu", wanted.keep, (int)getpid(), inputs.n);
	file = fopen(name, "wb");
	CHECK(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

/* From a copy of exactly this size, so that a sanitizer sees what is read beyond it. */
static void run(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = grown(NULL, size);
	size_t before = nr_reached;

	memcpy(copy, bytes, size);
	CHECK(pwrite(kept_file, copy, size, 0) == (ssize_t)size);
	CHECK(ftruncate(kept_file, (off_t)size) == 0);
	alarm(PATIENCE);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	if (nr_reached > before) {
		add(bytes, size);
		keep(bytes, size);
	}
}

/* --- mutations -------------------------------------------------------------------------------- */

/* Replace `gone` bytes at `at` by n others. */
static size_t replace(uint8_t *bytes, size_t size, size_t at, size_t gone, const uint8_t *by,
		      size_t n)
{
	if (size - gone + n > wanted.longest)
		return size;
	memmove(bytes + at + n, bytes + at + gone, size - at - gone);
	memcpy(bytes + at, by, n);
	return size - gone + n;
}

static size_t mutate(uint8_t *bytes, size_t size)
{
	static const uint8_t telling[] = "\0\1\x7f\x80\xff -,;:=/\n09";
	const struct input *other = &inputs.of[random_below(&wanted.seed, (unsigned)inputs.n)];
	size_t at = random_below(&wanted.seed, (unsigned)size + 1), rest = size - at,
	       from = random_below(&wanted.seed, (unsigned)other->size + 1),
	       n = random_below(&wanted.seed, (unsigned)(other->size - from) + 1),
	       few = random_below(&wanted.seed, rest < 8 ? (unsigned)rest + 1 : 8);
	uint8_t byte = random_below(&wanted.seed, 2)
			       ? (uint8_t)random_next(&wanted.seed)
			       : telling[random_below(&wanted.seed, sizeof(telling) - 1)];

	switch (random_below(&wanted.seed, 5)) {
	case 0:
		if (rest)
			bytes[at] ^= (uint8_t)(1 << random_below(&wanted.seed, 8));
		return size;
	case 1:
		return replace(bytes, size, at, rest != 0, &byte, 1);
	case 2:
		return replace(bytes, size, at, 0, &byte, 1);
	case 3:
		return replace(bytes, size, at, few, bytes, 0);
	default:
		return replace(bytes, size, at, few, other->bytes + from, n);
	}
}

static void run_mutated(void)
{
	const struct input *first = &inputs.of[random_below(&wanted.seed, (unsigned)inputs.n)];
	uint8_t *bytes = grown(NULL, wanted.longest);
	size_t size = first->size < wanted.longest ? first->size : wanted.longest;

	memcpy(bytes, first->bytes, size);
	for (unsigned int n = 1 + random_below(&wanted.seed, 8); n; n--)
		size = mutate(bytes, size);
	run(bytes, size);
	free(bytes);
}

/* --- the program ------------------------------------------------------------------------------ */

static bool read_option(const char *name, const char *value)
{
	uint64_t *number = !strcmp(name, "--runs")	? &wanted.runs
			   : !strcmp(name, "--seed")	? &wanted.seed
			   : !strcmp(name, "--longest") ? &wanted.longest
							: NULL;

	if (!strcmp(name, "--keep"))
		return (wanted.keep = value) != NULL;
	if (number && value)
		*number = strtoull(value, NULL, 0);
	return number && value && *number <= UINT32_MAX;
}

int main(int argc, char **argv)
{
	size_t given;

	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "--", 2)) {
			add_all(argv[i]);
		} else if (!read_option(argv[i], argv[i + 1])) {
			fprintf(stderr,
				"usage: %s [--runs N] [--seed S] [--longest BYTES] "
				"[--keep FOLDER] [FILE|FOLDER]...\n",
				argv[0]);
			return 2;
		} else {
			i++;
		}
	wanted.seed += !wanted.seed;
	snprintf(kept, sizeof(kept), "input-%d", (int)getpid());
	kept_file = open(kept, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CHECK(kept_file >= 0);
	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	given = inputs.n;
	for (size_t i = 0; i < given; i++)
		run(inputs.of[i].bytes, inputs.of[i].size);
	if (!inputs.n)
		add((const uint8_t *)"", 0);
	for (uint64_t i = 0; i < wanted.runs; i++)
		run_mutated();
	unlink(kept);
	printf("%zu inputs given, %llu mutated, %zu edges\n", given,
	       (unsigned long long)wanted.runs, nr_reached);
	return 0;
}
