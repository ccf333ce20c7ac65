/* SPDX-License-Identifier: MIT */
/*
 * Bodies that attract one another, by a tree of cells: each step builds the tree of new cells
 * and frees the last one's as a whole. Few blocks, much computing.
 */
#include <math.h>

#include "pattern.h"

#define BODIES 4000
#define DEEP   24 /* bodies at one place share a cell */

struct body {
	double at[2], speed[2], pull[2];
};

struct cell {
	double middle[2], half, weight, centre[2];
	struct cell *parts[4];
	const struct body *body;
};

static struct cell *new_cell(double x, double y, double half)
{
	struct cell *cell = calloc(1, sizeof(*cell));

	if (!cell)
		fail("no memory");
	cell->middle[0] = x;
	cell->middle[1] = y;
	cell->half = half;
	return cell;
}

static void insert(struct cell *cell, const struct body *body, int depth);

static void into_part(struct cell *cell, const struct body *body, int depth)
{
	int right = body->at[0] > cell->middle[0], above = body->at[1] > cell->middle[1];
	struct cell **part = &cell->parts[2 * right + above];
	double half = cell->half / 2;

	if (!*part)
		*part = new_cell(cell->middle[0] + (right ? half : -half),
				 cell->middle[1] + (above ? half : -half), half);
	insert(*part, body, depth + 1);
}

static void insert(struct cell *cell, const struct body *body, int depth)
{
	const struct body *other = cell->body;

	if (cell->weight == 0)
		cell->body = body;
	for (int i = 0; i < 2; i++)
		cell->centre[i] =
			(cell->centre[i] * cell->weight + body->at[i]) / (cell->weight + 1);
	if (++cell->weight == 1 || depth == DEEP)
		return;
	cell->body = NULL;
	if (other)
		into_part(cell, other, depth);
	into_part(cell, body, depth);
}

static void pull(struct body *body, const struct cell *cell)
{
	double x = cell->centre[0] - body->at[0], y = cell->centre[1] - body->at[1],
	       square = x * x + y * y + 1e-4;

	if (cell->body == body)
		return;
	if (cell->half * cell->half < square / 4 || cell->body) {
		double force = cell->weight / (square * sqrt(square));

		body->pull[0] += x * force;
		body->pull[1] += y * force;
		return;
	}
	for (int i = 0; i < 4; i++)
		if (cell->parts[i])
			pull(body, cell->parts[i]);
}

static void free_cells(struct cell *cell)
{
	for (int i = 0; i < 4; i++)
		if (cell->parts[i])
			free_cells(cell->parts[i]);
	free(cell);
}

static void move(struct body *body)
{
	for (int i = 0; i < 2; i++) {
		body->speed[i] += body->pull[i] * 1e-9;
		body->at[i] += body->speed[i];
		body->pull[i] = 0;
	}
}

void *barnes(void *number)
{
	struct body *bodies = calloc(BODIES, sizeof(*bodies));
	uint32_t state = seed(number);

	if (!bodies)
		fail("no memory");
	for (int i = 0; i < BODIES; i++)
		for (int k = 0; k < 2; k++)
			bodies[i].at[k] = next(&state) / 4294967296.0;
	for (size_t n = 0; n < rounds; n++) {
		struct cell *all = new_cell(0.5, 0.5, 0.5);

		for (int i = 0; i < BODIES; i++)
			insert(all, &bodies[i], 0);
		for (int i = 0; i < BODIES; i++)
			pull(&bodies[i], all);
		if (all->weight != BODIES)
			fail("a body is lost");
		free_cells(all);
		for (int i = 0; i < BODIES; i++)
			move(&bodies[i]);
	}
	free(bodies);
	return NULL;
}
