/* SPDX-License-Identifier: MIT */
/*
 * Steals sheaves from other CPUs' shards. A search looks only at CPUs that have used the barn,
 * those that share its hardware cache first, and at few at a time: the next search of this CPU
 * continues where it ended.
 */
#include "os/atomic.h"
#include "percpu/barn/cells.h"

/*
 * Shards of CPUs with the same hardware cache, and the same number of the node's others, per
 * search. It bounds a failed search to 16 shards of 22 cells on any machine. Because the next
 * search continues from there, half would find the same sheaf in twice as many searches, and each
 * one before that is a refill.
 */
#define STEAL_MAX 8

/* Places to search: `left` of those in use, from `place` to `end`, except `skip` to `skip_end`. */
struct walk {
	unsigned int place, end, skip, skip_end, left;
};

static unsigned int next_place(const struct barn *barn, const struct walk *w)
{
	unsigned int place = barn_next_used(barn, w->place, w->end);

	if (place >= w->skip && place < w->skip_end)
		place = barn_next_used(barn, w->skip_end, w->end);
	return place;
}

/* The walk's place stays at a shard that had a sheaf, and otherwise moves to the end. */
static struct sheaf *look(const struct barn_search *s, struct walk *w)
{
	struct sheaf *sheaf = NULL;

	while (!sheaf && w->left) {
		w->place = next_place(s->barn, w);
		if (w->place == w->end)
			break;
		w->left--;
		sheaf = barn_search_shard(s, os_cpu_at(s->node, w->place));
		w->place += !sheaf;
	}
	return sheaf;
}

/* Where this CPU is among those of the searched node; after their end, if it is one of another. */
static struct os_place place_of(const struct barn_search *s)
{
	uint16_t end = os.node[s->node].n;

	if (os.node_of_row[s->cpu] == s->node)
		return os.place_of[s->cpu];
	return (struct os_place){.place = end, .llc = end, .llc_end = end};
}

static void set_next(uint16_t *next, unsigned int place)
{
	if (os_load_relaxed(next) != place)
		os_store_relaxed(next, (uint16_t)place);
}

/* A CPU whose own objects do not fit into its shard finds full sheaves where it puts them, and
 * empty ones where it takes full ones. */
static void stay_at_part(const struct barn_search *s, unsigned int place)
{
	uint16_t *steal = slot_of_row(s->cache->at.handle, s->cpu)->steal;

	set_next(s->next, place);
	if (s->next == &steal[0] || s->next == &steal[1]) {
		set_next(&steal[0], place);
		set_next(&steal[1], place);
	}
}

struct sheaf *steal_again(const struct barn_search *s, bool near)
{
	const struct os_place mine = place_of(s);
	unsigned int end = os.node[s->node].n, hint = os_load_relaxed(s->next),
		     next = hint < end + BARN_PARTS ? hint : 0; /* it was about another node */
	struct walk w = {next, near ? mine.llc_end : end, mine.place, mine.place + 1u, 1};
	struct sheaf *sheaf = NULL;

	if (near && next < end && (next < mine.llc || next >= mine.llc_end))
		return NULL;
	if (next < end)
		sheaf = look(s, &w);
	/* Continue from the last CPU via the parts of the node's blocks to the first one. */
	if (w.left && w.place >= end) {
		sheaf = barn_search_part(s, w.place - end);
		if (sheaf)
			stay_at_part(s, w.place);
		else if (++w.place == end + BARN_PARTS)
			w.place = 0;
	}
	set_next(s->next, w.place);
	return sheaf;
}

struct sheaf *steal_part(const struct barn_search *s)
{
	unsigned int full = os_load_relaxed(&s->cache->barn_full),
		     parts = full / BARN_PART_CELLS + 1;
	/* CPUs of another node spread, too. */
	unsigned int part = os.place_of[s->cpu].place;
	struct sheaf *sheaf;

	if (!full)
		return NULL;
	part = parts < BARN_PARTS ? part % parts : part % BARN_PARTS;
	sheaf = barn_search_part(s, part);
	if (sheaf)
		stay_at_part(s, os.node[s->node].n + part);
	return sheaf;
}

struct sheaf *steal_near(const struct barn_search *s)
{
	const struct os_place mine = place_of(s);
	struct walk w = {mine.place, mine.llc_end, mine.place, mine.place + 1u, STEAL_MAX};
	struct sheaf *sheaf = look(s, &w);

	if (!sheaf) {
		w.place = mine.llc;
		w.end = mine.place;
		sheaf = look(s, &w);
	}
	if (sheaf)
		set_next(s->next, w.place);
	return sheaf;
}

struct sheaf *steal_far(const struct barn_search *s, bool *all)
{
	const struct os_place mine = place_of(s);
	unsigned int end = os.node[s->node].n, next = os_load_relaxed(s->next),
		     first = next < end ? next : end;
	struct walk w = {first, end, mine.place, mine.place + 1u, STEAL_MAX};
	struct sheaf *sheaf;

	/* If they are few, steal_near() has looked at all of them. */
	if (mine.llc_end - mine.llc <= STEAL_MAX + 1) {
		w.skip = mine.llc;
		w.skip_end = mine.llc_end;
	}
	*all = false;
	sheaf = look(s, &w);
	if (!sheaf && w.left) {
		*all = true;
		w.place = 0;
		w.end = first;
		sheaf = look(s, &w);
	}
	set_next(s->next, w.place);
	return sheaf;
}
