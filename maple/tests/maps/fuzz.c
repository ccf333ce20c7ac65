/* SPDX-License-Identifier: MIT */
/*
 * Recordings of address spaces, damaged at random: the parser either reports the damage or accepts
 * the recording, and the space then replays it exactly as the model does. Built with the address
 * sanitizer, if it is available. SEED repeats a run, ROUNDS makes it longer.
 *
 *     fuzz RECORDING...
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../bench/vma/replay/check.h"
#include "kit/provider.h"
#include "kit/random.h"

#define LINES_MAX 200 /* of a recording, so that rounds are short */

static uint64_t seed, state;
static unsigned long refused, verdicts[CHECK_NO_MEMORY + 1];

static uint64_t below(uint64_t n)
{
	return (random_next(&state) >> 16) % n;
}

struct text {
	char *at;
	size_t size, room;
};

static void fail(const char *why, const struct text *text, const char *error)
{
	fprintf(stderr, "%s: seed %" PRIu64 ": %s\n", why, seed, error);
	fwrite(text->at, 1, text->size, stderr);
	exit(1);
}

/* --- the text --------------------------------------------------------------------------------- */

/* Replace some bytes with others. */
static void replace(struct text *text, size_t at, size_t length, const char *with, size_t n)
{
	if (text->size - length + n + 1 > text->room) {
		text->room = 2 * (text->size + n + 1);
		text->at = realloc(text->at, text->room);
		if (!text->at)
			exit(1);
	}
	memmove(text->at + at + n, text->at + at + length, text->size - at - length);
	memcpy(text->at + at, with, n);
	text->size += n - length;
}

static size_t line_begin(const struct text *text, size_t at)
{
	while (at > 0 && text->at[at - 1] != '\n')
		at--;
	return at;
}

static size_t line_end(const struct text *text, size_t at)
{
	while (at < text->size && text->at[at] != '\n')
		at++;
	return at < text->size ? at + 1 : at;
}

/* Correct the number of lines, so that not all damage is found at the end. */
static void mend_end(struct text *text)
{
	size_t done = text->size ? line_begin(text, text->size - 1) : 0, lines = 0;
	char number[32];
	int length;

	for (size_t i = 0; i < done; i++)
		lines += text->at[i] == '\n';
	length = snprintf(number, sizeof(number), "done %zu\n", lines);
	replace(text, done, text->size - done, number, (size_t)length);
}

/* A recording's first lines and its last ones: together a complete, shorter recording. */
static void shorten(struct text *text)
{
	size_t end = 0, lines = 0;

	while (end < text->size && lines < LINES_MAX) {
		end = line_end(text, end);
		lines++;
	}
	if (end == text->size)
		return;
	while (end && (!strncmp(text->at + line_begin(text, end - 1) + 2, "end ", 4)))
		end = line_begin(text, end - 1);
	replace(text, end, text->size - end, "done 0\n", 7);
	mend_end(text);
}

/* --- damage ----------------------------------------------------------------------------------- */

static void damage_byte(struct text *text, size_t at)
{
	char byte = below(4) ? (char)(' ' + below(95)) : (char)below(256);

	replace(text, at, 1, &byte, 1);
}

static void damage_line(struct text *text, size_t at)
{
	size_t begin = line_begin(text, at), end = line_end(text, at);
	size_t to = line_begin(text, below(text->size));
	char line[512];

	if (end - begin > sizeof(line))
		return;
	memcpy(line, text->at + begin, end - begin);
	if (below(2))
		replace(text, to, 0, line, end - begin);
	else
		replace(text, begin, end - begin, "", 0);
}

static void damage_number(struct text *text, size_t at)
{
	static const char *const odd[] = {
		"0", "1", "ffffffffffffffff", "fffffffffff", "100000000000", "ffffffffffffffffffff",
		"",  "-1"};
	char near[32];
	const char *with = odd[below(8)];
	size_t end;

	while (at < text->size && !isxdigit((unsigned char)text->at[at]))
		at++;
	for (end = at; end < text->size && isxdigit((unsigned char)text->at[end]);)
		end++;
	if (below(3)) {
		uint64_t value = strtoull(text->at + at, NULL, 16) + below(9) - 4;

		snprintf(near, sizeof(near), "%" PRIx64, value);
		with = near;
	}
	replace(text, at, end - at, with, strlen(with));
}

static void damage(struct text *text)
{
	size_t at = below(text->size);

	text->at[text->size] = '\0';
	switch (below(8)) {
	case 0:
		damage_byte(text, at);
		break;
	case 1:
	case 2:
	case 3:
		damage_line(text, at);
		break;
	case 4:
		if (!below(8))
			text->size = at;
		break;
	default:
		damage_number(text, at);
	}
}

/* --- the outcome ------------------------------------------------------------------------------ */

static void check_error(const struct text *text, const char *error)
{
	if (strncmp(error, "damaged:", 8) || !isdigit((unsigned char)error[8]) ||
	    strchr(error, '\n') || strlen(error) + 1 >= ERROR_ROOM)
		fail("not a clear line", text, error);
}

static void try(const struct text *text)
{
	struct recording recording;
	struct check check = {.path = "damaged", .recording = &recording};
	char error[ERROR_ROOM], *copy = malloc(text->size + 1);

	if (!copy)
		exit(1);
	memcpy(copy, text->at, text->size);
	if (!recording_parse(&recording, "damaged", copy, text->size, error)) {
		check_error(text, error);
		refused++;
		return;
	}
	verdicts[check_recording(&check)]++;
	recording_free(&recording);
	if (check.verdict == CHECK_GOOD)
		return;
	check_error(text, check.error);
	if (check.verdict == CHECK_SPACE || check.verdict == CHECK_NO_MEMORY)
		fail("the space is wrong", text, check.error);
}

static struct text read_text(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct text text = {.room = 1 << 20};

	text.at = malloc(text.room);
	if (!file || !text.at) {
		perror(path);
		exit(1);
	}
	text.size = fread(text.at, 1, text.room - 1, file);
	fclose(file);
	shorten(&text);
	return text;
}

static void run(const struct text *whole)
{
	struct text text = {.room = whole->room};

	state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	text.at = malloc(text.room);
	if (!text.at)
		exit(1);
	memcpy(text.at, whole->at, whole->size);
	text.size = whole->size;
	for (uint64_t i = below(3); text.size && i < 3; i++)
		damage(&text);
	if (text.size && below(4))
		mend_end(&text);
	try(&text);
	free(text.at);
}

int main(int argc, char **argv)
{
	const char *given = getenv("SEED"), *length = getenv("ROUNDS");
	uint64_t rounds = length ? strtoull(length, NULL, 10) : 500;

	provider_register();
	for (int i = 1; i < argc; i++) {
		struct text whole = read_text(argv[i]);

		try(&whole);
		if (!verdicts[CHECK_GOOD])
			fail("not accepted", &whole, argv[i]);
		for (uint64_t round = 1; round <= rounds; round++) {
			seed = given ? strtoull(given, NULL, 10) : round;
			run(&whole);
			if (given)
				break;
		}
		free(whole.at);
	}
	printf("%lu refused; of the others %lu good, %lu impossible, %lu not as the kernel\n",
	       refused, verdicts[CHECK_GOOD], verdicts[CHECK_IMPOSSIBLE], verdicts[CHECK_KERNEL]);
	if (!given && (!refused || !verdicts[CHECK_IMPOSSIBLE] || !verdicts[CHECK_KERNEL])) {
		fprintf(stderr, "the damage is all of one kind\n");
		return 1;
	}
	return 0;
}
