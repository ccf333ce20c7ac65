/* SPDX-License-Identifier: MIT */
/* Readers of a maple tree and what they may see; see maple_readers.h. */
#include "maple_readers.h"

#include "../../src/node.h"
#include "maple_nodes.h"
#include "sim/sim.h"

struct history history;

/* A reader, and the number of stores completed when its call began. */
struct look {
	const struct reader *reader;
	unsigned int since;
};

static void begin(struct look *look)
{
	look->since = history.done;
}

/* The state's slot is inside its leaf: the next step reads the slots next to it. */
static void check_place(const struct look *look, const struct ma_state *mas)
{
	void *const *first = mas->node ? first_slot(mas->node) : NULL;

	if (first && (mas->at < first || mas->at > mas->stop || mas->stop >= first + LEAF_SLOTS))
		sim_fail("reading %u from %lu: slot %ld of %ld", look->reader->reading,
			 look->reader->at, (long)(mas->at - first), (long)(mas->stop - first));
}

/* The entry had this range at some time during the call. */
static void saw_range(const struct look *look, const void *entry, unsigned long first,
		      unsigned long last)
{
	for (unsigned int i = look->since; i <= history.begun; i++) {
		const struct model *m = &history.content[i];
		unsigned int c = cell_of(m, first);

		if (m->cells[c].entry == entry && cell_min(m, model_first(m, c)) == first &&
		    cell_max(m, model_last(m, c)) == last)
			return;
	}
	sim_fail("reading %u from %lu: entry %p at %lu ... %lu, which was never there",
		 look->reader->reading, look->reader->at, entry, first, last);
}

static void saw_entry(const struct look *look, const void *entry, unsigned long index)
{
	for (unsigned int i = look->since; i <= history.begun; i++) {
		const struct model *m = &history.content[i];

		if (m->cells[cell_of(m, index)].entry == entry)
			return;
	}
	sim_fail("reading %u from %lu: %p at %lu, which was never there", look->reader->reading,
		 look->reader->at, entry, index);
}

/* Nothing was stored at first ... last, unless first is greater than last. */
static void saw_free(const struct look *look, unsigned long first, unsigned long last)
{
	const struct model *m = &history.content[0];

	if (first > last)
		return;
	for (unsigned int c = cell_of(m, first); c <= cell_of(m, last); c++)
		saw_entry(look, NULL, cell_max(m, c));
}

/* index ... last contains the index from which the call had to continue. */
static void saw_gap_or_range(const struct look *look, const struct ma_state *mas, const void *entry,
			     unsigned long index)
{
	if (mas->index > index || index > mas->last)
		sim_fail("reading %u from %lu: %lu ... %lu does not go on at %lu",
			 look->reader->reading, look->reader->at, mas->index, mas->last, index);
	if (entry)
		saw_range(look, entry, mas->index, mas->last);
	else
		saw_free(look, mas->index, mas->last);
}

static void read_point(struct look *look, struct maple_tree *mt)
{
	MA_STATE(mas, mt, look->reader->at, look->reader->at);
	void *entry;

	begin(look);
	if (look->reader->reading == READ_LOAD) {
		entry = mtree_load(mt, look->reader->at);
		saw_entry(look, entry, look->reader->at);
	} else {
		entry = mas_walk(&mas);
		check_place(look, &mas);
		saw_gap_or_range(look, &mas, entry, look->reader->at);
	}
}

/* Iterate over the ranges from `at` up to the limit; with gaps, over the gaps, too. */
static void read_up(struct look *look, struct maple_tree *mt, bool gaps)
{
	MA_STATE(mas, mt, look->reader->at, look->reader->at);
	unsigned long next = look->reader->at;

	for (bool first = gaps;; first = false) {
		void *entry;

		begin(look);
		if (first) /* mas_find_range() does not stop at the gap where it starts */
			entry = mas_walk(&mas);
		else
			entry = gaps ? mas_find_range(&mas, look->reader->limit)
				     : mas_find(&mas, look->reader->limit);
		check_place(look, &mas);
		if (mas.status != ma_active && !entry) {
			saw_free(look, next, look->reader->limit);
			if (mas.status == ma_overflow)
				saw_free(look, mas.index, mas.last);
			return;
		}
		if (gaps) {
			saw_gap_or_range(look, &mas, entry, next);
		} else {
			saw_range(look, entry, mas.index, mas.last);
			if (mas.index > next)
				saw_free(look, next, mas.index - 1);
			if (mas.last < next)
				sim_fail("reading %u: %lu after %lu", look->reader->reading,
					 mas.last, next);
		}
		if (mas.last >= look->reader->limit)
			return;
		next = mas.last + 1;
	}
}

static void read_down(struct look *look, struct maple_tree *mt, bool gaps)
{
	MA_STATE(mas, mt, look->reader->limit, look->reader->limit);
	unsigned long next = look->reader->limit;

	for (bool first = gaps;; first = false) {
		unsigned long from = mas.status == ma_none ? mas.index : next;
		void *entry;

		begin(look);
		if (first)
			entry = mas_walk(&mas);
		else
			entry = gaps ? mas_find_range_rev(&mas, look->reader->at)
				     : mas_find_rev(&mas, look->reader->at);
		check_place(look, &mas);
		/* After a tree without nodes the search starts there again: a writer may have
		 * stored something. */
		if (mas.index <= from && from <= mas.last)
			next = from;
		if (!entry && mas.status != ma_active &&
		    !(mas.status == ma_none && mas.index > look->reader->at)) {
			saw_free(look, look->reader->at, next);
			if (mas.status == ma_underflow)
				saw_free(look, mas.index, mas.last);
			return;
		}
		if (gaps) {
			saw_gap_or_range(look, &mas, entry, next);
		} else {
			saw_range(look, entry, mas.index, mas.last);
			if (mas.last < next)
				saw_free(look, mas.last + 1, next);
			if (mas.index > next)
				sim_fail("reading %u: %lu after %lu", look->reader->reading,
					 mas.index, next);
		}
		if (mas.index <= look->reader->at)
			return;
		next = mas.index - 1;
	}
}

/* One step forward and one back from the range at the index. */
static void read_next_prev(struct look *look, struct maple_tree *mt)
{
	MA_STATE(mas, mt, look->reader->at, look->reader->at);
	unsigned long from;
	void *entry;

	begin(look);
	entry = mas_next(&mas, look->reader->limit);
	check_place(look, &mas);
	if (entry) {
		saw_range(look, entry, mas.index, mas.last);
		if (mas.last <= look->reader->at)
			sim_fail("mas_next from %lu: %lu", look->reader->at, mas.last);
	}
	if (!mas_is_active(&mas))
		return;
	from = mas.index;
	begin(look);
	entry = mas_prev(&mas, 0);
	check_place(look, &mas);
	if (!entry) {
		if (from)
			saw_free(look, 0, from - 1);
		return;
	}
	saw_range(look, entry, mas.index, mas.last);
	if (mas.index >= from)
		sim_fail("mas_prev from %lu: %lu", from, mas.index);
	if (mas.last < from - 1)
		saw_free(look, mas.last + 1, from - 1);
}

static void read_mt_find(struct look *look, struct maple_tree *mt)
{
	unsigned long index = look->reader->at, from;
	void *entry;

	do {
		from = index;
		begin(look);
		entry = mt_find(mt, &index, look->reader->limit);
		if (entry)
			saw_entry(look, entry, index - 1);
		else
			saw_free(look, from, look->reader->limit);
	} while (entry && index > from && index <= look->reader->limit);
}

void reader_run(struct maple_tree *mt, const struct reader *reader)
{
	struct look look = {reader, 0};

	reader_enters();
	switch (reader->reading) {
	case READ_LOAD:
	case READ_WALK:
		read_point(&look, mt);
		break;
	case READ_FIND:
	case READ_FIND_RANGE:
		read_up(&look, mt, reader->reading == READ_FIND_RANGE);
		break;
	case READ_FIND_REV:
	case READ_FIND_RANGE_REV:
		read_down(&look, mt, reader->reading == READ_FIND_RANGE_REV);
		break;
	case READ_NEXT_PREV:
		read_next_prev(&look, mt);
		break;
	default:
		read_mt_find(&look, mt);
	}
	reader_leaves();
}
