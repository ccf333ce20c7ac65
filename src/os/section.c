/* SPDX-License-Identifier: MIT */
/* The sections for slow paths: the backend is selected here; everything else is inline. */
#include "os/section.h"

#include "os/rseq.h"
#include "os/view.h"

#define C_SECTION static OS_NOINLINE
#include "os/section_c.h"

#ifdef HAVE_RSEQ
#define SECTION(rseq, c) (os.backend == OS_BACKEND_RSEQ ? (rseq) : (c))
#else
#define SECTION(rseq, c) (c)
#endif

OS_COLD struct slot *section_stand_in(char *handle)
{
	unsigned int node = os_node();

	for (unsigned int i = 0; i < os.nr_stand_ins; i++) {
		struct slot *slot = slot_of_row(handle, os_stand_in(node, i));

		/* Slots are opened one after the other. */
		if (!os_load_relaxed(&slot->home_size))
			break;
		if (!os_load_relaxed(&slot->lock) && !os_exchange(&slot->lock, 1))
			return slot;
	}
	return NULL;
}

void *section_pop(struct section_slots *s)
{
	void *object;
	bool done = SECTION(
		os.counting ? rseq_pop_counted(os.rseq_offset, os.id_offset, s->handle, &object)
			    : rseq_pop(os.rseq_offset, os.id_offset, s->handle, &object),
		c_pop(s->handle, &object));

	return done ? object : NULL;
}

void *section_pop_sampled(struct section_slots *s)
{
	void *object;
	bool done = SECTION(
		os.counting
			? rseq_pop_sampled_counted(os.rseq_offset, os.id_offset, s->handle, &object)
			: rseq_pop_sampled(os.rseq_offset, os.id_offset, s->handle, &object),
		c_pop_sampled(s->handle, &object));

	return done ? object : NULL;
}

bool section_arm(struct section_slots *s, uint32_t n)
{
	return SECTION(rseq_arm(s->handle, n - 1), c_arm(s, n));
}

bool section_push(struct section_slots *s, void *object)
{
	return SECTION(os.counting
			       ? rseq_push_counted(os.rseq_offset, os.id_offset, s->handle, object)
			       : rseq_push(os.rseq_offset, os.id_offset, s->handle, object),
		       c_push(s->handle, object));
}

/* After a section that changed a slot, or moved many objects: make that visible to others. */
static inline unsigned int shown(struct section_slots *s, unsigned int done)
{
	if (os_unlikely(os.counting) && done)
		view_show(s->handle);
	return done;
}

unsigned int section_pop_bulk(struct section_slots *s, void **objects, unsigned int n)
{
	return shown(s, SECTION(rseq_pop_bulk(s->handle, objects, n), c_pop_bulk(s, objects, n)));
}

unsigned int section_push_bulk(struct section_slots *s, void **objects, unsigned int n)
{
	return shown(s, SECTION(rseq_push_bulk(s->handle, objects, n), c_push_bulk(s, objects, n)));
}

bool section_swap_empty(struct section_slots *s)
{
	return shown(s, SECTION(rseq_swap_empty(s), c_swap(s, true)));
}

bool section_swap_full(struct section_slots *s)
{
	return shown(s, SECTION(rseq_swap_full(s), c_swap(s, false)));
}

bool section_replace_spare(struct section_slots *s, struct sheaf *sheaf, struct sheaf **old)
{
	return shown(s, SECTION(rseq_replace_spare(s, sheaf, old), c_replace_spare(s, sheaf, old)));
}

bool section_put_spare(struct section_slots *s, struct sheaf *sheaf)
{
	return shown(s, SECTION(rseq_put_spare(s, sheaf), c_put_spare(s, sheaf)));
}

bool section_push_rcu(struct section_slots *s, void *object)
{
	return SECTION(rseq_push_rcu(os.rseq_offset, os.id_offset, s->handle, object),
		       c_push_rcu(s->handle, object));
}

bool section_replace_rcu(struct section_slots *s, struct sheaf *sheaf, struct sheaf **old)
{
	return SECTION(rseq_replace_rcu(s, sheaf, old), c_replace_rcu(s, sheaf, old));
}

bool section_push_remote(char *handle, unsigned int kind, void *object)
{
	return SECTION(rseq_push_remote(handle, kind, object), c_push_remote(handle, kind, object));
}

bool section_replace_remote(struct section_slots *s, unsigned int kind, struct sheaf *sheaf,
			    struct sheaf **old)
{
	return SECTION(rseq_replace_remote(s, kind, sheaf, old),
		       c_replace_remote(s, kind, sheaf, old));
}

bool section_stock(struct section_slots *s, unsigned int cell, uint64_t key, uint64_t add)
{
	return SECTION(rseq_stock(s, cell, key, add), c_stock(s, cell, key, add));
}

bool section_stock_swap(struct section_slots *s, unsigned int cell, uint64_t word, uint64_t *old)
{
	return SECTION(rseq_stock_swap(s, cell, word, old), c_stock_swap(s, cell, word, old));
}

void os_count(void *handle, unsigned int i, uint64_t n)
{
	intptr_t word = os_counter(handle, i) - (char *)handle;
	char *from = handle;

	if (SECTION(rseq_count(handle, word, n), false))
		return;
	if (os.backend == OS_BACKEND_TRYLOCK) {
		struct slot *slot = slot_of_row(handle, os_row());

		if (os_load_acquire(&slot->home_size))
			from = (char *)slot;
	}
	os_fetch_add_relaxed((uint64_t *)(from + word), n);
}
