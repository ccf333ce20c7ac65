/* SPDX-License-Identifier: MIT */
/* See record.h: the ranges of a space as /proc/PID/maps lists them. */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

#define TRIES	    100
#define KERNEL_HALF (UINT64_C(1) << 63) /* mappings at addresses from here on are in every space */

void short_name(char name[NAME_ROOM], const char *path)
{
	static const char deleted[] = " (deleted)";
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	size_t length = strcspn(base, "\n"), tail = sizeof(deleted) - 1;

	if (length > tail && !memcmp(base + length - tail, deleted, tail))
		length -= tail;
	if (length >= NAME_ROOM)
		length = NAME_ROOM - 1;
	for (size_t i = 0; i < length; i++)
		name[i] = isgraph((unsigned char)base[i]) && base[i] != '@' ? base[i] : '_';
	strcpy(name + length, length ? "" : "-");
}

void link_name(char name[NAME_ROOM], const char *format, ...)
{
	char link[64], target[PATH_MAX];
	va_list words;
	ssize_t length;

	va_start(words, format);
	vsnprintf(link, sizeof(link), format, words);
	va_end(words);
	length = readlink(link, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = '\0';
	short_name(name, target);
}

static bool parse(const char *line, struct range *range)
{
	uint64_t first, end, offset;
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &first, &end,
		   range->permissions, &offset, &path) < 4 ||
	    first >= KERNEL_HALF)
		return false;
	range->first = first / page_size();
	range->pages = (end - first) / page_size();
	range->offset = offset / page_size();
	short_name(range->name, path ? line + path : "");
	return true;
}

struct ranges {
	struct range *all;
	size_t n, room;
};

/* The ranges of this file. False: one begins before another one ends. */
static bool read_ranges(struct ranges *ranges, FILE *file)
{
	uint64_t end = 0;
	char *line = NULL;
	size_t room = 0;
	bool in_order = true;

	ranges->n = 0;
	while (getline(&line, &room, file) > 0) {
		struct range range;

		if (!parse(line, &range))
			continue;
		if (ranges->n == ranges->room) {
			ranges->room = 2 * ranges->room + 64;
			ranges->all = realloc(ranges->all, ranges->room * sizeof(range));
			if (!ranges->all)
				no_memory();
		}
		in_order &= range.first >= end;
		end = range.first + range.pages;
		ranges->all[ranges->n++] = range;
	}
	free(line);
	return in_order;
}

/*
 * If a thread is killed in a call, ranges may change while the kernel lists them. If they are not
 * in order, read the file again.
 */
bool each_range(pid_t tid, void (*function)(const struct range *range, void *data), void *data)
{
	struct ranges ranges = {0};
	bool in_order = false;
	FILE *file = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)tid);
	for (int i = 0; i < TRIES && !in_order; i++) {
		file = fopen(path, "re");
		if (!file)
			break;
		in_order = read_ranges(&ranges, file);
		fclose(file);
	}
	for (size_t i = 0; i < ranges.n && file; i++)
		function(&ranges.all[i], data);
	free(ranges.all);
	return file;
}

struct place {
	unsigned int space;
	const char *word;
};

static void put_one(const struct range *range, void *data)
{
	const struct place *place = data;

	put("%u %s %" PRIx64 "+%" PRIx64 " %s %s@%" PRIx64, place->space, place->word, range->first,
	    range->pages, range->permissions, range->name, range->offset);
}

bool put_ranges(pid_t tid, unsigned int space, const char *word)
{
	struct place place = {space, word};

	return each_range(tid, put_one, &place);
}

static void compare(const struct range *range, void *data)
{
	struct range *found = data;

	if (range->first == found->first)
		*found = *range;
}

bool find_range(pid_t tid, uint64_t first, struct range *found)
{
	*found = (struct range){.first = first};
	return each_range(tid, compare, found) && found->pages;
}

/* Field 47 of its line in /proc, the 45th after the name, which may hold anything. */
uint64_t heap_start(pid_t tid)
{
	char path[64], text[2048], *at = NULL;
	FILE *file;
	size_t length;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	at = strrchr(text, ')');
	for (int i = 0; at && i < 45; i++)
		at = strchr(at + 1, ' ');
	return at ? (strtoull(at, NULL, 10) + page_size() - 1) / page_size() : 0;
}

static void count(const struct range *range, void *data)
{
	(void)range;
	++*(size_t *)data;
}

size_t nr_ranges(pid_t tid)
{
	size_t ranges = 0;

	return each_range(tid, count, &ranges) ? ranges : 0;
}
