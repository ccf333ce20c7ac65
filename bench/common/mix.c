/* SPDX-License-Identifier: MIT */
/* See mix.h. */
#include "mix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "threads.h"

#define ROWS_MAX 512
#define AGES	 40 /* cells of a row; the first one counts the objects never freed */
#define KEPT	 UINT32_MAX

/* The recorded objects, all cells of all rows one after the other. */
static struct {
	uint32_t size[ROWS_MAX];
	uint64_t until[ROWS_MAX][AGES]; /* objects up to and including this cell */
	uint64_t all;
	unsigned int rows;
} recorded;

static _Noreturn void die(const char *path, const char *why)
{
	fprintf(stderr, "%s: %s\n", path, why);
	exit(1);
}

static void read_row(const char *path, char *line)
{
	char *end;
	unsigned int row = recorded.rows++;

	if (row == ROWS_MAX)
		die(path, "too many sizes");
	recorded.size[row] = (uint32_t)strtoul(line, &end, 10);
	if (end == line || !recorded.size[row])
		die(path, "a line does not begin with a size");
	for (unsigned int i = 0; i < AGES; i++) {
		recorded.all += strtoull(end, &end, 10);
		recorded.until[row][i] = recorded.all;
	}
}

static void read_rows(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[1024];

	if (!file) {
		perror(path);
		exit(1);
	}
	while (fgets(line, sizeof(line), file))
		read_row(path, line);
	fclose(file);
	if (!recorded.all)
		die(path, "has no objects");
}

static uint64_t random_below(uint64_t limit)
{
	static uint64_t state = BENCH_SEED;

	return (bench_random(&state) >> 11) % limit;
}

/* Draw one of the recorded objects: its size, and its age when it was freed. */
static uint32_t draw(uint32_t *age)
{
	uint64_t which = random_below(recorded.all);
	unsigned int row = 0, cell = 0;

	while (recorded.until[row][AGES - 1] <= which)
		row++;
	while (recorded.until[row][cell] <= which)
		cell++;
	if (cell == 0 || cell > 32)
		*age = KEPT;
	else if (cell == 1)
		*age = 0;
	else
		*age = (1u << (cell - 2)) + (uint32_t)random_below(1u << (cell - 2));
	return recorded.size[row];
}

/* Lists of slots by the allocation after which they are freed; the last list is the end. */
struct deaths {
	uint32_t *first; /* by allocation; 0: none, else a slot plus one */
	uint32_t *next;	 /* by slot */
};

static void add_step(struct mix *mix, uint32_t slot, uint32_t size)
{
	mix->steps[mix->nr_steps++] = (struct mix_step){slot, size};
}

void mix_read(struct mix *mix, const char *path, size_t objects)
{
	struct deaths deaths = {
		.first = bench_room((objects + 1) * sizeof(uint32_t)),
		.next = bench_room(objects * sizeof(uint32_t)),
	};
	uint32_t *unused = bench_room(objects * sizeof(uint32_t));
	size_t nr_unused = 0;

	read_rows(path);
	*mix = (struct mix){.steps = bench_room(2 * objects * sizeof(*mix->steps))};
	for (size_t i = 0; i <= objects; i++) {
		if (i < objects) {
			uint32_t age, slot, size = draw(&age);
			size_t death = age < objects - i ? i + age : objects;

			slot = nr_unused ? unused[--nr_unused] : (uint32_t)mix->slots++;
			add_step(mix, slot, size);
			deaths.next[slot] = deaths.first[death];
			deaths.first[death] = slot + 1;
		}
		for (uint32_t at = deaths.first[i]; at; at = deaths.next[at - 1]) {
			add_step(mix, at - 1, 0);
			unused[nr_unused++] = at - 1;
		}
	}
}
