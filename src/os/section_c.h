/* SPDX-License-Identifier: MIT */
/*
 * The same sections in C: under a slot's try-lock (the trylock backend), and restartable at every
 * load on the simulator's invented CPUs. tests/walk/ proves the assembly equal to these.
 *
 * c_section_begin() finds the slot of this CPU, or its stand-in, and enters; c_section_commit() is
 * the one store, and fails if the section was aborted before it. A slot that is declared with
 * C_LEAVES is left at the end of the function.
 */
#ifndef SHEAF_OS_SECTION_C_H
#define SHEAF_OS_SECTION_C_H

#include "os/atomic.h"
#include "os/counters.h"
#include "os/machine.h"
#include "os/section.h"

/* How to define the sections: inline on a fast path, out of line next to the assembly ones. */
#ifndef C_SECTION
#define C_SECTION static inline
#endif

#ifdef SHEAF_SIM
/* Is this the backend of restartable sections? Assembly does not ask, so it has no price. */
bool os_sim_restarts(void);
/* True if the fibre was preempted, signalled or migrated since it entered. */
bool os_sim_section_enter(struct slot *slot);
bool os_sim_section_aborted(void);
void os_sim_section_leave(struct slot *slot);
#endif

/* In section.c. Lock an open slot among the stand-ins for a locked slot, and return it; or NULL. */
struct slot *section_stand_in(char *handle);

static inline struct slot *c_section_begin(char *handle)
{
	struct slot *slot = slot_of_row(handle, os_row());

#ifdef SHEAF_SIM
	if (os_sim_restarts())
		return os_sim_section_enter(slot) ? slot : NULL;
#endif
	/* A closed slot is not locked: a forked child unlocks only slots that are open. */
	if (os_unlikely(!os_load_acquire(&slot->home_size)))
		return NULL;
	/* Its holder may be preempted: other threads on its CPU then find the slot locked again and
	 * again. */
	return os_unlikely(os_exchange(&slot->lock, 1)) ? section_stand_in(handle) : slot;
}

/* A drain sets stop and then reads which slots are open, and the lock; a thread that took the lock
 * and found the slot open must not read stop before that. Pairs with the fence in take_slots()
 * (src/percpu/drain.c). */
static inline void c_section_see_stop(void)
{
	if (os.backend == OS_BACKEND_TRYLOCK)
		os_fence();
}

static inline void c_section_end(struct slot *const *slot)
{
	if (!*slot)
		return;
#ifdef SHEAF_SIM
	if (os_sim_restarts()) {
		os_sim_section_leave(*slot);
		return;
	}
#endif
	os_store_release(&(*slot)->lock, 0);
}

#define C_LEAVES __attribute__((cleanup(c_section_end)))

static inline bool c_section_live(void)
{
#ifdef SHEAF_SIM
	return !os_sim_section_aborted();
#else
	return true;
#endif
}

#define c_section_commit(where, value)                                                             \
	(os_step(COMMIT, (where), sizeof(*(where)), #where),                                       \
	 c_section_live() && (__atomic_store_n((where), (value), __ATOMIC_RELEASE), true))

/*
 * A store that is not the commit. An aborted section in assembly would not have reached it.
 */
#define c_section_store(where, value)                                                              \
	do {                                                                                       \
		os_step(WRITE, (where), sizeof(*(where)), #where);                                 \
		if (c_section_live())                                                              \
			__atomic_store_n((where), (value), __ATOMIC_RELAXED);                      \
	} while (0)

/* A commit that exchanges the word: true, and *old is what it was. */
#define c_section_exchange(where, value, old)                                                      \
	({                                                                                         \
		__typeof__(*(where)) was_ = os_load_relaxed(where);                                \
                                                                                                   \
		c_section_commit(where, value) && (*(old) = (__typeof__(*(old)))was_, true);       \
	})

static inline uint64_t c_word(struct sheaf *sheaf)
{
	uint64_t word = os_load_relaxed(&sheaf->word);

	/*
	 * An aborted section in assembly would not read this sheaf, which may have another use now.
	 */
	return c_section_live() ? word : 0;
}

static inline uint32_t c_size(struct sheaf *sheaf)
{
	return (uint32_t)c_word(sheaf) & SHEAF_SIZE;
}

/* The copy of main's word for others, stored before the commit. */
static inline void c_show(struct slot *slot, uint64_t word)
{
	if (os.counting)
		c_section_store((uint64_t *)((char *)slot + OS_COUNTERS), word);
}

static inline struct sheaf *c_main(struct slot *slot)
{
	return os_load_relaxed(&slot->main);
}

struct c_main {
	struct sheaf *sheaf;
	uint64_t word;
	uint32_t size;
};

static inline struct c_main c_read_main(struct slot *slot)
{
	struct sheaf *m = c_main(slot);
	uint64_t word = c_word(m);

	return (struct c_main){m, word, (uint32_t)word & SHEAF_SIZE};
}

static inline struct sheaf *c_spare(struct slot *slot, struct sheaf *m)
{
	return (struct sheaf *)(os_load_relaxed(&slot->pair) ^ (uintptr_t)m);
}

/*
 * May this section change the slot? Read nothing else of it before. If the kernel refuses a drain's
 * second membarrier, the drain puts the sheaves back and clears stop: a section that had read the
 * bootstrap sheaf before would then commit. The slot's state is read before stop: ROWS-W2.
 */
static inline bool c_may_change(struct slot *slot, const uint32_t *stop)
{
	bool open = os_load_acquire(&slot->home_size) != 0;

	c_section_see_stop();
	return open && !os_load_acquire(stop);
}

/* A slow path may open the slot at the same time: see ROWS-W1. */
static inline bool c_is_home(struct slot *slot, const void *object)
{
	return (uintptr_t)object - os_load_relaxed(&slot->home) < os_load_relaxed(&slot->home_size);
}

C_SECTION bool c_pop(char *handle, void **object)
{
	struct slot *slot C_LEAVES = c_section_begin(handle);
	struct c_main m;

	if (!slot)
		return false;
	m = c_read_main(slot);
	if (!m.size)
		return false;
	*object = os_load_relaxed(&m.sheaf->objects[m.size - 1]);
	return c_section_commit(&m.sheaf->word, m.word + ((os.counting ? SHEAF_POP : 0) - 1));
}

C_SECTION bool c_pop_sampled(char *handle, void **object)
{
	struct slot *slot C_LEAVES = c_section_begin(handle);
	struct c_main m;
	int32_t left;

	if (!slot)
		return false;
	m = c_read_main(slot);
	if (!m.size)
		return false;
	left = os_load_relaxed(&m.sheaf->left) - 1;
	c_section_store(&m.sheaf->left, left);
	if (left < 0)
		return false;
	*object = os_load_relaxed(&m.sheaf->objects[m.size - 1]);
	return c_section_commit(&m.sheaf->word, m.word + ((os.counting ? SHEAF_POP : 0) - 1));
}

C_SECTION bool c_arm(struct section_slots *s, uint32_t n)
{
	struct slot *slot C_LEAVES = c_section_begin(s->handle);
	struct sheaf *m;

	if (!slot)
		return false;
	m = c_main(slot);
	return os_load_relaxed(&m->left) < 0 && c_section_commit(&m->left, (int32_t)n - 1);
}

C_SECTION bool c_push(char *handle, void *object)
{
	struct slot *slot C_LEAVES = c_section_begin(handle);
	struct c_main m;

	if (!slot || !c_is_home(slot, object))
		return false;
	m = c_read_main(slot);
	if (m.size >= m.sheaf->capacity || !c_section_live())
		return false;
	c_section_store(&m.sheaf->objects[m.size], object);
	c_show(slot, m.word + 1);
	return c_section_commit(&m.sheaf->word, m.word + 1);
}

C_SECTION unsigned int c_pop_bulk(struct section_slots *s, void **objects, unsigned int n)
{
	struct slot *slot C_LEAVES = c_section_begin(s->handle);
	struct c_main m;
	uint32_t count;

	if (!slot)
		return 0;
	m = c_read_main(slot);
	count = m.size < n ? m.size : n;
	for (unsigned int i = 0; i < count; i++)
		objects[i] = os_load_relaxed(&m.sheaf->objects[m.size - count + i]);
	return count && c_section_commit(&m.sheaf->word, m.word - count) ? count : 0;
}

C_SECTION unsigned int c_push_bulk(struct section_slots *s, void **objects, unsigned int n)
{
	struct slot *slot C_LEAVES = c_section_begin(s->handle);
	uintptr_t home, bits = 0;
	uint32_t room, count;
	struct c_main m;

	if (!slot)
		return 0;
	m = c_read_main(slot);
	room = m.sheaf->capacity - m.size;
	count = room < n ? room : n;
	home = os_load_relaxed(&slot->home);
	for (unsigned int i = 0; i < count && c_section_live(); i++) {
		c_section_store(&m.sheaf->objects[m.size + i], objects[i]);
		bits |= (uintptr_t)objects[i] - home;
	}
	if (bits >= os_load_relaxed(&slot->home_size))
		return 0;
	return count && c_section_commit(&m.sheaf->word, m.word + count) ? count : 0;
}

C_SECTION bool c_swap(struct section_slots *s, bool wants_empty_main)
{
	struct slot *slot C_LEAVES = c_section_begin(s->handle);
	struct sheaf *m, *p;

	if (!slot || !c_may_change(slot, &s->stop))
		return false;
	m = c_main(slot);
	p = c_spare(slot, m);
	if (!p || !c_section_live())
		return false;
	return (wants_empty_main ? c_size(m) == 0 && c_size(p) != 0
				 : c_size(m) >= m->capacity && c_size(p) < p->capacity) &&
	       c_section_commit(&slot->main, p);
}

C_SECTION bool c_replace_spare(struct section_slots *s, struct sheaf *sheaf, struct sheaf **old)
{
	struct slot *slot C_LEAVES = c_section_begin(s->handle);
	struct sheaf *m, *p;

	if (!slot || !c_may_change(slot, &s->stop))
		return false;
	m = c_main(slot);
	p = c_spare(slot, m);
	if (!c_section_commit(&slot->pair, (uintptr_t)m ^ (uintptr_t)sheaf))
		return false;
	*old = p;
	return true;
}

C_SECTION bool c_put_spare(struct section_slots *s, struct sheaf *sheaf)
{
	struct slot *slot C_LEAVES = c_section_begin(s->handle);
	struct sheaf *m;

	if (!slot || !c_may_change(slot, &s->stop))
		return false;
	m = c_main(slot);
	return !c_spare(slot, m) && c_section_commit(&slot->pair, (uintptr_t)m ^ (uintptr_t)sheaf);
}

/* Of a sheaf whose word has no pops. */
static inline bool c_append(struct sheaf *sheaf, void *object)
{
	uint32_t size = c_size(sheaf);

	if (size >= sheaf->capacity || !c_section_live())
		return false;
	c_section_store(&sheaf->objects[size], object);
	return c_section_commit(&sheaf->size, size + 1);
}

C_SECTION bool c_push_rcu(char *handle, void *object)
{
	struct slot *slot C_LEAVES = c_section_begin(handle);

	return slot && c_is_home(slot, object) &&
	       c_append(os_load_relaxed(&slot->rcu_free), object);
}

C_SECTION bool c_replace_rcu(struct section_slots *s, struct sheaf *sheaf, struct sheaf **old)
{
	struct slot *slot C_LEAVES = c_section_begin(s->handle);

	if (!slot || !c_is_home(slot, sheaf->objects[0]) || !c_may_change(slot, &s->rcu_stop))
		return false;
	return c_section_exchange(&slot->rcu_free, sheaf, old);
}

C_SECTION bool c_push_remote(char *handle, unsigned int kind, void *object)
{
	struct slot *slot C_LEAVES = c_section_begin(handle);
	struct sheaf *sheaf;

	if (!slot)
		return false;
	sheaf = (struct sheaf *)os_load_relaxed(&slot->cells[slot_remote_cell(kind)]);
	return sheaf && c_section_live() && os_load_relaxed(&sheaf->filled_by) == kind + 1 &&
	       c_append(sheaf, object);
}

C_SECTION bool c_replace_remote(struct section_slots *s, unsigned int kind, struct sheaf *sheaf,
				struct sheaf **old)
{
	struct slot *slot C_LEAVES = c_section_begin(s->handle);

	if (!slot || !c_may_change(slot, &s->stop) || os_load_acquire(&s->rcu_stop))
		return false;
	return c_section_exchange(&slot->cells[slot_remote_cell(kind)], (uintptr_t)sheaf, old);
}

/* The words of a closed slot are 0, which no key matches. */
C_SECTION bool c_stock(struct section_slots *s, unsigned int cell, uint64_t key, uint64_t add)
{
	struct slot *slot C_LEAVES = c_section_begin(s->handle);
	uint64_t word;

	if (!slot)
		return false;
	word = os_load_relaxed(&slot->cells[cell]) + add;
	return (word ^ key) >> SECTION_STOCK_BITS == 0 &&
	       c_section_commit(&slot->cells[cell], word);
}

C_SECTION bool c_stock_swap(struct section_slots *s, unsigned int cell, uint64_t word,
			    uint64_t *old)
{
	struct slot *slot C_LEAVES = c_section_begin(s->handle);

	if (!slot || !c_may_change(slot, &s->stop))
		return false;
	return c_section_exchange(&slot->cells[cell], word, old);
}

#endif
