/* SPDX-License-Identifier: MIT */
/*
 * Which network an IPv4 address belongs to: a tree of ranges, read from a file of lines such as
 *
 *     192.168.0.0/16 Private use
 *
 * A network inside another one must come after it: its range is stored over a part of the other.
 *
 *     ip-ranges FILE ADDRESS...        ip-ranges examples/ip-ranges.txt 192.168.1.7
 */
#include <arpa/inet.h>
#include <sheaf/maple_tree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct name {
	struct name *next;
	char text[];
};

static DEFINE_MTREE(networks);
static struct name *names;

static int read_address(const char *text, unsigned long *address)
{
	struct in_addr parsed;

	if (inet_pton(AF_INET, text, &parsed) != 1)
		return -1;
	*address = ntohl(parsed.s_addr);
	return 0;
}

static char *keep_name(const char *text)
{
	struct name *name = malloc(sizeof(*name) + strlen(text) + 1);

	if (!name)
		return NULL;
	name->next = names;
	names = name;
	return strcpy(name->text, text);
}

/* One line: the range is stored with a copy of the name, kept until the end. */
static int read_network(char *line)
{
	unsigned long first, size;
	unsigned int bits = 0;
	char *slash = strchr(line, '/'), *name = strchr(line, ' '), *copy;

	if (!slash || !name || sscanf(slash, "/%u ", &bits) != 1 || bits > 32)
		return -1;
	*slash = '\0';
	size = 1UL << (32 - bits);
	if (read_address(line, &first) || first % size)
		return -1;
	copy = keep_name(name + 1);
	if (!copy || mtree_store_range(&networks, first, first + size - 1, copy, GFP_KERNEL))
		return -1;
	return 0;
}

static int read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[256];
	int number = 0;

	if (!file) {
		perror(path);
		return -1;
	}
	while (fgets(line, sizeof(line), file)) {
		number++;
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '#' || line[0] == '\0')
			continue;
		if (read_network(line)) {
			fprintf(stderr, "%s:%d: not ADDRESS/BITS NAME, or no memory\n", path,
				number);
			fclose(file);
			return -1;
		}
	}
	fclose(file);
	return 0;
}

static void show(const char *text)
{
	unsigned long address;
	const char *name;

	if (read_address(text, &address)) {
		printf("%s: not an address\n", text);
		return;
	}
	name = mtree_load(&networks, address);
	printf("%s: %s\n", text, name ? name : "not listed");
}

/* The tree holds pointers, and one name in several places if others lie within it. */
static void forget_names(void)
{
	while (names) {
		struct name *next = names->next;

		free(names);
		names = next;
	}
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: ip-ranges FILE ADDRESS...\n");
		return 2;
	}
	if (read_file(argv[1]))
		return 1;
	for (int i = 2; i < argc; i++)
		show(argv[i]);
	forget_names();
	mtree_destroy(&networks);
	return 0;
}
