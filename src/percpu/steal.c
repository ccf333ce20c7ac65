/* SPDX-License-Identifier: MIT */
/*
 * Steals sheaves from other CPUs' shards. A search looks only at CPUs that have used the barn, the
 * nearest first, and at few at a time: the next search of this CPU continues where it ended.
 */
#include "os/atomic.h"
#include "percpu/cells.h"

/*
 * Shards behind the same cache, and the same number of the node's others, per search. It bounds a
 * failed search to 16 shards of 23 cells on any machine. Because the next search continues from
 * there, half would find the same sheaf in twice as many searches, and each one before that is a
 * refill.
 */
#define STEAL_MAX 8

/* Places to search: `left` of those in use, from `place` to `end`, except `skip` to `skip_end`. */
struct walk {
	unsigned int place, end, skip, skip_end, left;
};

/* The first place in use, or `end`. */
static unsigned int next_used(const struct barn *barn, unsigned int place, unsigned int end)
{
	while (place < end) {
		uint64_t bits = os_load_relaxed(&barn->used[place / 64]) >> place % 64;

		if (bits) {
			place += (unsigned int)__builtin_ctzll(bits);
			break;
		}
		place = (place | 63) + 1;
	}
	return place < end ? place : end;
}

static unsigned int next_place(const struct barn *barn, const struct walk *w)
{
	unsigned int place = next_used(barn, w->place, w->end);

	if (place >= w->skip && place < w->skip_end)
		place = next_used(barn, w->skip_end, w->end);
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

/* Search the CPUs behind the same cache; then these, or this CPU alone, are skipped. */
static struct sheaf *look_near(const struct barn_search *s, struct walk *w)
{
	const struct os_place *mine = &os.place_of[s->cpu];
	struct sheaf *sheaf;

	*w = (struct walk){mine->place, mine->llc_end, mine->place, mine->place + 1u, STEAL_MAX};
	sheaf = look(s, w);
	if (sheaf)
		return sheaf;
	w->place = mine->llc;
	w->end = mine->place;
	sheaf = look(s, w);
	if (w->left) {
		w->skip = mine->llc;
		w->skip_end = mine->llc_end;
	}
	return sheaf;
}

static uint16_t *next_of(const struct barn_search *s)
{
	return &slot_of_row(s->cache->at.handle, s->cpu)->steal[s->full && !s->put];
}

static void set_next(const struct barn_search *s, unsigned int place)
{
	if (os_load_relaxed(next_of(s)) != place)
		os_store_relaxed(next_of(s), (uint16_t)place);
}

struct sheaf *steal_again(const struct barn_search *s)
{
	unsigned int mine = os.place_of[s->cpu].place, next = os_load_relaxed(next_of(s)),
		     end = os.node[s->node].n;
	struct walk w = {next, end, mine, mine + 1, 1};
	struct sheaf *sheaf = next < end ? look(s, &w) : NULL;

	/* Continue from the last CPU via the parts of the node's blocks to the first one. */
	if (w.left) {
		sheaf = barn_search_part(s, w.place - end);
		if (!sheaf && ++w.place == end + BARN_PARTS)
			w.place = 0;
	}
	set_next(s, w.place);
	return sheaf;
}

struct sheaf *steal(const struct barn_search *s, bool *all)
{
	unsigned int end = os.node[s->node].n, next = os_load_relaxed(next_of(s)),
		     first = next < end ? next : end;
	struct walk w;
	struct sheaf *sheaf = look_near(s, &w);

	*all = false;
	if (sheaf)
		return sheaf;
	w.place = first;
	w.end = end;
	w.left = STEAL_MAX;
	sheaf = look(s, &w);
	if (!sheaf && w.left) {
		*all = true;
		w.place = 0;
		w.end = first;
		sheaf = look(s, &w);
	}
	set_next(s, w.place);
	return sheaf;
}
