/* SPDX-License-Identifier: MIT */
/*
 * Show the range that an IPv4 address belongs to, and its neighbours: a tree of ranges, read from a
 * file. Each line of the file has a range and a name, in one of these forms; # begins a comment:
 *
 *     192.168.0.0/16 Private use
 *     192.168.0.0,192.168.255.255,Private use
 *
 * A range may lie within the range of an earlier line, and then replaces that part of it.
 *
 *     ip-ranges FILE ADDRESS...        ip-ranges maple/examples/ipv4-space.csv 17.1.2.3
 *     ip-ranges FILE                   every range, in order
 *
 *     cc -O2 ip-ranges.c -o ip-ranges $(pkg-config --cflags --libs libsheaf-maple)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sheaf/maple_tree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct name {
	struct name *next;
	char text[];
};

/* The content of a line. */
struct range {
	unsigned long first, last;
	char *name;
};

static DEFINE_MTREE(ranges);
static struct name *names;

static int read_address(const char *text, unsigned long *address)
{
	struct in_addr parsed;

	if (inet_pton(AF_INET, text, &parsed) != 1)
		return -1;
	*address = ntohl(parsed.s_addr);
	return 0;
}

static const char *write_address(unsigned long address, char text[INET_ADDRSTRLEN])
{
	struct in_addr raw = {.s_addr = htonl((in_addr_t)address)};

	return inet_ntop(AF_INET, &raw, text, INET_ADDRSTRLEN);
}

/* --- a line ---------------------------------------------------------------------------------- */

/* Cut off the text before the first of these characters; NULL if there is none. */
static char *cut(char **rest, const char *ends)
{
	char *part = *rest, *end = strpbrk(part, ends);

	if (!end)
		return NULL;
	*end = '\0';
	*rest = end + 1;
	return part;
}

/* ADDRESS/BITS NAME. Returns an error message, or NULL. */
static const char *read_block(char *line, struct range *range)
{
	const char *address = cut(&line, "/"), *bits = cut(&line, " \t");
	unsigned long n, size;
	char *end;

	if (!bits)
		return "a name is missing after ADDRESS/BITS";
	if (read_address(address, &range->first))
		return "the text before the / is not an IPv4 address";
	n = strtoul(bits, &end, 10);
	if (end == bits || *end || n > 32)
		return "the text after the / is not a number from 0 to 32";
	size = 1UL << (32 - n);
	if (range->first % size)
		return "the address has bits set beyond the prefix length after the /";
	range->last = range->first + (size - 1);
	range->name = line;
	return NULL;
}

/* FIRST,LAST,NAME */
static const char *read_fields(char *line, struct range *range)
{
	const char *first = cut(&line, ","), *last = cut(&line, ",");

	if (!first || !last)
		return "this is neither ADDRESS/BITS NAME nor FIRST,LAST,NAME";
	if (read_address(first, &range->first))
		return "the first field is not an IPv4 address";
	if (read_address(last, &range->last))
		return "the second field is not an IPv4 address";
	if (range->last < range->first)
		return "the last address is below the first";
	range->name = line;
	return NULL;
}

/* The tree holds pointers to the name, at several places if other ranges lie within it. So names
 * are never freed. */
static const char *keep_name(const char *text)
{
	struct name *name = malloc(sizeof(*name) + strlen(text) + 1);

	if (!name)
		return NULL;
	name->next = names;
	names = name;
	return strcpy(name->text, text);
}

static const char *read_range(char *line)
{
	char *slash = strchr(line, '/'), *comma = strchr(line, ',');
	bool block = slash && (!comma || slash < comma);
	struct range range;
	const char *wrong = block ? read_block(line, &range) : read_fields(line, &range);
	const char *name;

	if (wrong)
		return wrong;
	range.name += strspn(range.name, " \t");
	if (!*range.name)
		return "the name is empty";
	name = keep_name(range.name);
	if (!name)
		return "no memory";
	/* Earlier ranges are cut where this range covers them. */
	if (mtree_store_range(&ranges, range.first, range.last, (void *)name, GFP_KERNEL))
		return "no memory";
	return NULL;
}

static int read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	const char *wrong = NULL;
	unsigned int number = 0;
	char *line = NULL;
	size_t size = 0;

	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	while (!wrong && getline(&line, &size, file) >= 0) {
		number++;
		line[strcspn(line, "\r\n")] = '\0';
		if (line[0] != '#' && line[0] != '\0')
			wrong = read_range(line);
	}
	if (wrong)
		fprintf(stderr, "%s:%u: %s\n", path, number, wrong);
	else if (ferror(file))
		wrong = strerror(errno), fprintf(stderr, "%s: %s\n", path, wrong);
	free(line);
	fclose(file);
	return wrong ? -1 : 0;
}

/* --- lookups ---------------------------------------------------------------------------------- */

/* Where the state is. */
static void show(const char *what, const struct ma_state *mas, const char *name)
{
	char first[INET_ADDRSTRLEN], last[INET_ADDRSTRLEN];

	printf("%s%s ... %s  %s\n", what, write_address(mas->index, first),
	       write_address(mas->last < UINT32_MAX ? mas->last : UINT32_MAX, last), name);
}

/* Show the range of an address, or the gap that it is in, and the ranges before and after it. */
static int look_up(const char *text)
{
	unsigned long address;
	const char *name;

	if (read_address(text, &address)) {
		fprintf(stderr, "%s: not an IPv4 address\n", text);
		return -1;
	}

	MA_STATE(mas, &ranges, address, address);

	printf("%s\n", text);
	mas_lock(&mas); /* no other thread runs; with MT_FLAGS_USE_RCU none is needed */
	name = mas_walk(&mas);
	show("    in      ", &mas, name ? name : "(not listed)");
	name = mas_prev(&mas, 0);
	if (name)
		show("    before  ", &mas, name);
	mas_set(&mas, address);
	name = mas_next(&mas, UINT32_MAX);
	if (name)
		show("    after   ", &mas, name);
	mas_unlock(&mas);
	return 0;
}

static void show_all(void)
{
	MA_STATE(mas, &ranges, 0, 0);
	const char *name;

	mas_lock(&mas);
	mas_for_each(&mas, name, UINT32_MAX) show("", &mas, name);
	mas_unlock(&mas);
}

int main(int argc, char **argv)
{
	int error;

	if (argc < 2) {
		fprintf(stderr, "usage: ip-ranges FILE [ADDRESS...]\n");
		return 2;
	}
	error = read_file(argv[1]);
	for (int i = 2; i < argc && !error; i++)
		error = look_up(argv[i]);
	if (argc == 2 && !error)
		show_all();
	mtree_destroy(&ranges);
	while (names) {
		struct name *next = names->next;

		free(names);
		names = next;
	}
	return error ? 1 : 0;
}
