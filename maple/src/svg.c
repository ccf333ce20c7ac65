/* SPDX-License-Identifier: MIT */
/*
 * A tree as a picture: a row of boxes for each level, a box for each node, a cell for each slot.
 * Cells of leaves are filled if they hold an entry. Hovering over a cell shows its range, and its
 * entry or gap.
 *
 * Called with the tree's lock held.
 */
#include "tree.h"

enum {
	CELL = 14,
	ROW = 70,
	SPACE = 8,
	MARGIN = 20
};

static void cell(FILE *out, int x, int y, const char *fill, unsigned long first, unsigned long last)
{
	fprintf(out,
		"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"#345\">"
		"<title>%lu ... %lu: ",
		x, y, CELL, CELL, fill, first, last);
}

static int row(const struct maple_tree *mt, unsigned int level)
{
	return MARGIN + (int)(mt_height(mt) - 1 - level) * ROW;
}

/* Draw a leaf from *x on, and move *x behind it. Returns the leaf's middle. */
static int draw_leaf(const struct maple_tree *mt, FILE *out, enode_t e, unsigned long min,
		     unsigned long max, int *x)
{
	const struct maple_node *leaf = node_of(e);
	unsigned int end = end_of(leaf);
	int from = *x;

	for (unsigned int i = 0; i <= end; i++, *x += CELL) {
		void *entry = leaf->range.slot[i];

		cell(out, *x, row(mt, 0), entry ? "#8c6" : "#fff", slot_min(leaf, i, min),
		     slot_max(leaf, i, end, max));
		if (entry)
			fprintf(out, "%p</title></rect>\n", entry);
		else
			fprintf(out, "free</title></rect>\n");
	}
	*x += SPACE;
	return (from + *x - SPACE) / 2;
}

/* Draw everything below a node from *x on, then the node above its middle. Returns that middle. */
static int draw(const struct maple_tree *mt, FILE *out, enode_t e, unsigned long min,
		unsigned long max, int *x)
{
	const struct maple_node *node = node_of(e);
	unsigned int end = end_of(node), level = level_of(e);
	int middle[LEAF_SLOTS], from, y;

	if (level == 0)
		return draw_leaf(mt, out, e, min, max, x);
	for (unsigned int i = 0; i <= end; i++)
		middle[i] = draw(mt, out, (enode_t)slots(e)[i], slot_min(node, i, min),
				 slot_max(node, i, end, max), x);
	from = (middle[0] + middle[end] - (int)(end + 1) * CELL) / 2;
	y = row(mt, level);
	for (unsigned int i = 0; i <= end; i++) {
		int left = from + (int)i * CELL;

		fprintf(out, "<path d=\"M%d %dL%d %d\" stroke=\"#999\"/>\n", left + CELL / 2,
			y + CELL, middle[i], row(mt, level - 1));
		cell(out, left, y, "#ade", slot_min(node, i, min), slot_max(node, i, end, max));
		fprintf(out, "gap %lu</title></rect>\n", is_arange(e) ? gaps(e)[i] : 0);
	}
	return from + (int)(end + 1) * CELL / 2;
}

/* The width of everything below a node. */
static int width(enode_t e)
{
	unsigned int end = end_of(node_of(e));
	int sum = 0;

	if (level_of(e) == 0)
		return (int)(end + 1) * CELL + SPACE;
	for (unsigned int i = 0; i <= end; i++)
		sum += width((enode_t)slots(e)[i]);
	return sum;
}

static void dump_svg(const struct maple_tree *mt, FILE *out)
{
	bool nodes = is_node(mt->ma_root);
	int x = MARGIN, wide = nodes ? width((enode_t)mt->ma_root) : CELL;

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"font-family=\"sans-serif\">\n",
		wide + 2 * MARGIN, (int)mt_height(mt) * ROW + 2 * MARGIN);
	if (nodes) {
		draw(mt, out, (enode_t)mt->ma_root, 0, ULONG_MAX, &x);
	} else if (mt->ma_root) {
		cell(out, x, MARGIN, "#8c6", 0, 0);
		fprintf(out, "%p</title></rect>\n", mt->ma_root);
	}
	fprintf(out, "</svg>\n");
}

SHEAF_PUBLIC int mt_dump_svg(const struct maple_tree *mt, int fd)
{
	return dump_to(fd, mt, dump_svg);
}
