/* SPDX-License-Identifier: MIT */
/*
 * kmem_cache_validate(): checks the slabs of a cache while the program uses it, holding one after
 * the other (slab/hold.c).
 *
 * kmem_cache_verify() needs a quiet cache, and then proves that each object is in exactly one
 * place. This call needs no quiet cache, and proves less: each slab's state must be possible, and
 * the bytes of free objects and around used ones must be as slab_debug left them.
 *
 * Locks: OS_RANK_NODE, briefly. Callers: programs; src/control/.
 */

#include <sheaf/debug.h>

#include "cache/list.h"
#include "cache/paths.h"
#include "cache/verify.h"
#include "percpu/percpu.h"

struct validation {
	struct kmem_cache *s;
	int faults;
};

static void slab_fault(struct validation *validation, struct slab *slab, const char *what)
{
	validation->faults++;
	os_misuse_later(validation->s->name, "kmem_cache_validate(%s): the slab at %p %s",
			validation->s->name, (void *)page_address(slab), what);
}

/*
 * The count first, then the bits: a thread that frees sets a bit before it subtracts, so their sum
 * is never too small.
 */
static void validate_counts(struct validation *validation, struct slab *slab)
{
	struct slab_cache *cache = &validation->s->sheaf.slab;
	uint64_t state = os_load_acquire(&slab->state), last = 0;
	unsigned int objects = slab_order_of(cache, state).objects, free = 0;

	for (unsigned int i = 0; i < slab_nr_words(cache, state); i++) {
		last = os_load_acquire(slab_words(cache, slab) + i);
		free += (unsigned int)__builtin_popcountll(last);
	}
	if (free + slab_inuse(state) < objects)
		slab_fault(validation, slab, "has objects that are neither free nor in use");
	if (objects % 64 && last >> objects % 64)
		slab_fault(validation, slab, "has bits beyond its last object");
}

static void validate_objects(struct validation *validation, struct slab *slab)
{
	struct slab_cache *cache = &validation->s->sheaf.slab;
	unsigned int objects = slab_order_of(cache, os_load_relaxed(&slab->state)).objects;

	for (unsigned int i = 0; i < objects; i++) {
		bool is_free = slab_has(cache, slab, i);

		if (slab_is_prepared(cache, slab, i))
			validation->faults +=
				debug_validate(cache, slab_object(cache, slab, i), is_free);
	}
}

static void validate_slab(void *data, struct slab *slab)
{
	struct validation *validation = data;

	validate_counts(validation, slab);
	if (cache_is_checked(validation->s))
		validate_objects(validation, slab);
}

/* Objects in quarantine are checked as they leave it, before their slabs are. */
int cache_validate(struct kmem_cache *s)
{
	struct validation validation = {.s = s};

	sheaf_give_deferred(&s->sheaf);
	validation.faults = quarantine_drain(&s->sheaf.slab, false);
	slab_for_each_held(&s->sheaf.slab, validate_slab, &validation);
	return validation.faults;
}

SHEAF_PUBLIC int kmem_cache_validate(struct kmem_cache *s)
{
	int faults = -EINVAL;

	if (list_pin(s, "kmem_cache_validate")) {
		faults = cache_validate(s);
		list_unpin(s);
	}
	cache_leave();
	return faults;
}
