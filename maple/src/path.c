/* SPDX-License-Identifier: MIT */
/*
 * A path from the root to a leaf, for writers: every node on it, the slot taken in each, and the
 * range of each node. Nodes do not point to their parents, so that replacing an inner node touches
 * none of its children. A writer that must go up has come down such a path. Called with the tree's
 * lock held.
 */
#include "tree.h"

static void step_into(struct step *step, const struct step *above)
{
	const struct maple_node *node = node_of(above->e);

	step->e = child(above->e, above->offset);
	step->min = slot_min(node, above->offset, above->min);
	step->max = slot_max(node, above->offset, end_of(node), above->max);
}

void path_walk(struct path *path, const struct maple_tree *mt, unsigned long index)
{
	struct step *step;

	path->height = level_of((enode_t)mt->ma_root);
	step = &path->at[path->height];
	step->e = (enode_t)mt->ma_root;
	step->min = 0;
	step->max = ULONG_MAX;
	step->offset = search(step->e, index);
	for (; step != path->at; step--) {
		step_into(step - 1, step);
		prefetch_node(step[-1].e);
		step[-1].offset = search(step[-1].e, index);
	}
}

void path_copy(struct path *to, const struct path *from)
{
	to->height = from->height;
	for (unsigned int l = 0; l <= from->height; l++)
		to->at[l] = from->at[l];
}

bool path_next(struct path *path, unsigned int level)
{
	unsigned int up = level + 1;

	while (up <= path->height && path->at[up].offset == end_of(node_of(path->at[up].e)))
		up++;
	if (up > path->height)
		return false;
	path->at[up].offset++;
	while (up-- > level) {
		step_into(&path->at[up], &path->at[up + 1]);
		path->at[up].offset = 0;
	}
	return true;
}

bool path_prev(struct path *path, unsigned int level)
{
	unsigned int up = level + 1;

	while (up <= path->height && path->at[up].offset == 0)
		up++;
	if (up > path->height)
		return false;
	path->at[up].offset--;
	while (up-- > level) {
		step_into(&path->at[up], &path->at[up + 1]);
		path->at[up].offset = end_of(node_of(path->at[up].e));
	}
	return true;
}
