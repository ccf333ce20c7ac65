/* SPDX-License-Identifier: MIT */
/*
 * A tree as text: a line for each node, its slots below it. A state as one line.
 *
 *     maple tree 0x7ffd3e2a9c10, flags 0x303, height 2
 *     0 ... 18446744073709551615: node 0x70000001f100, 2 slots
 *       0 ... 99 (gap 10): leaf 0x70000001f200, 3 slots
 *         0 ... 9: -
 *         10 ... 19: 0x55d3c1
 *
 * Called with the tree's lock held.
 */
#include <errno.h>

#include "tree.h"

static void dump_leaf(FILE *out, enode_t e, unsigned long min, unsigned long max, int indent)
{
	const struct maple_node *leaf = node_of(e);
	unsigned int end = end_of(leaf);

	for (unsigned int i = 0; i <= end; i++) {
		fprintf(out, "%*s%lu ... %lu: ", indent, "", slot_min(leaf, i, min),
			slot_max(leaf, i, end, max));
		if (leaf->range.slot[i])
			fprintf(out, "%p\n", leaf->range.slot[i]);
		else
			fprintf(out, "-\n");
	}
}

static void dump_node(FILE *out, enode_t e, unsigned long min, unsigned long max, int indent)
{
	const struct maple_node *node = node_of(e);
	unsigned int end = end_of(node);

	fprintf(out, "%s %p, %u slots\n", level_of(e) ? "node" : "leaf", (const void *)node,
		end + 1);
	if (level_of(e) == 0) {
		dump_leaf(out, e, min, max, indent + 2);
		return;
	}
	for (unsigned int i = 0; i <= end; i++) {
		unsigned long first = slot_min(node, i, min), last = slot_max(node, i, end, max);

		fprintf(out, "%*s%lu ... %lu", indent + 2, "", first, last);
		if (is_arange(e))
			fprintf(out, " (gap %lu)", gaps(e)[i]);
		fprintf(out, ": ");
		dump_node(out, (enode_t)slots(e)[i], first, last, indent + 2);
	}
}

static void dump_text(const struct maple_tree *mt, FILE *out)
{
	fprintf(out, "maple tree %p, flags 0x%x, height %u\n", (const void *)mt, mt->ma_flags,
		mt_height(mt));
	if (is_node(mt->ma_root)) {
		fprintf(out, "0 ... %lu: ", ULONG_MAX);
		dump_node(out, (enode_t)mt->ma_root, 0, ULONG_MAX, 0);
	} else if (mt->ma_root) {
		fprintf(out, "0: %p\n", mt->ma_root);
	}
}

/* Where the text goes, and the first error there. */
struct target {
	int fd, error;
};

static ssize_t put(void *cookie, const char *text, size_t length)
{
	struct target *target = cookie;
	size_t done = 0;

	while (!target->error && done < length) {
		ssize_t n = write_quietly(target->fd, text + done, length - done);

		if (n > 0)
			done += (size_t)n;
		else if (!n || errno != EINTR)
			target->error = n ? errno : EIO;
	}
	return target->error ? 0 : (ssize_t)length;
}

int dump_to(int fd, const struct maple_tree *mt,
	    void (*dump)(const struct maple_tree *mt, FILE *out))
{
	struct target target = {.fd = fd};
	int saved = errno;
	FILE *out = fopencookie(&target, "w", (cookie_io_functions_t){.write = put});

	if (out) {
		dump(mt, out);
		fclose(out);
	} else {
		target.error = ENOMEM;
	}
	errno = saved;
	return -target.error;
}

SHEAF_PUBLIC int mt_dump(const struct maple_tree *mt, int fd)
{
	return dump_to(fd, mt, dump_text);
}

SHEAF_PUBLIC int mas_dump(const struct ma_state *mas, int fd)
{
	static const char *const names[] = {"active", "start",	  "root",      "none",
					    "pause",  "overflow", "underflow", "error"};
	struct target target = {.fd = fd};
	int saved = errno, length;
	char text[200];

	length = snprintf(text, sizeof(text),
			  "maple state %p, tree %p: %lu ... %lu, %s, error %d, leaf %p, "
			  "%u nodes preallocated\n",
			  (const void *)mas, (const void *)mas->tree, mas->index, mas->last,
			  names[mas->status], mas_error(mas), (const void *)mas->node,
			  nodes_in_hand(mas));
	put(&target, text, (size_t)length);
	errno = saved;
	return -target.error;
}
