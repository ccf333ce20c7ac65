/* SPDX-License-Identifier: MIT */
/*
 * Prefilled sheaves for users: number of objects, flags, and checks for misuse.
 *
 * An oversize sheaf is filled by a bulk allocation and emptied by a bulk free; one with the cache's
 * capacity moves as a whole (src/percpu/prefill.c).
 */

#include "percpu/prefill.h"
#include "cache/account.h"
#include "cache/hardened.h"
#include "cache/reclaim.h"

/* The fields that the public header's pop uses. A cache's address is its handle. */
_Static_assert(offsetof(struct sheaf_lent, by) == offsetof(struct sheaf, lent_by) &&
		       offsetof(struct sheaf_lent, objects) == offsetof(struct sheaf, objects),
	       "programs know how a lent sheaf begins");

static struct sheaf *of_user(struct slab_sheaf *sheaf)
{
	return (struct sheaf *)sheaf;
}

static OS_COLD void report_not_out(struct kmem_cache *s, const struct sheaf *sheaf,
				   const char *call)
{
	if (sheaf)
		os_misuse_later(
			s->name,
			"%s(%s, sheaf %p): not a sheaf from kmem_cache_prefill_sheaf(%s), or "
			"already returned; ignored. Use a sheaf with its own cache only, and "
			"return it once",
			call, s->name, (const void *)sheaf, s->name);
	/* A signal handler may take objects from its sheaf. */
	os_report_kept_nowait();
}

/* True if it belongs to this cache and is lent. Otherwise the misuse is reported, and the caller
 * does nothing. */
static inline bool is_out(struct kmem_cache *s, const struct sheaf *sheaf, const char *call)
{
	bool out = sheaf && prefill_is_lent(&s->sheaf, sheaf);

	if (!out)
		report_not_out(s, sheaf, call);
	return out;
}

/* Objects are zeroed one by one when they are popped; if a node has no memory, another node's is
 * used. */
static gfp_t gfp_of_sheaf(struct kmem_cache *s, gfp_t gfp)
{
	return cache_check_gfp(s, gfp & ~__GFP_ZERO) & ~__GFP_THISNODE;
}

static bool is_oversize(struct kmem_cache *s, const struct sheaf *sheaf)
{
	return sheaf->capacity > sheaf_capacity(&s->sheaf);
}

/* Fill the sheaf to at least n objects. Returns false if there is no memory; its objects then stay
 * in it. */
static bool fill_sheaf(struct kmem_cache *s, struct sheaf *sheaf, gfp_t gfp, unsigned int n)
{
	unsigned int has = sheaf->size;

	if (has < n && !is_oversize(s, sheaf))
		has = prefill_fill(&s->sheaf, sheaf, n);
	if (has >= n)
		return true;
	if (!cache_alloc_all(s, gfp, n - has, sheaf->objects + has))
		return false;
	sheaf_set_size(sheaf, n);
	return true;
}

/* The objects from this number on belong to the user now, because the library does not see their
 * pops. A wrong object that cannot be replaced is left out. */
static OS_COLD void watch_lent(struct kmem_cache *s, struct sheaf *sheaf, unsigned int from)
{
	unsigned int n = from;

	for (unsigned int i = from; i < sheaf->size; i++)
		if (cache_watch_taken(s, GFP_NOWAIT, 1, &sheaf->objects[i]))
			sheaf->objects[n++] = sheaf->objects[i];
	sheaf_set_size(sheaf, n);
}

/* Each of its objects is charged when it is popped. That must not fail, so there is a place for
 * the owner of each now: for the objects from this number on. False: there is no memory. */
static OS_COLD bool account_lent(struct kmem_cache *s, const struct sheaf *sheaf, unsigned int from)
{
	for (unsigned int i = from; i < sheaf->size; i++) {
		uint32_t *at = account_place(s, sheaf->objects[i], true);

		if (!at)
			return false;
		if (!guard_is_ours(sheaf->objects[i]))
			os_store_relaxed(at, OWNER_NOBODY);
	}
	return true;
}

/* May the user have the sheaf, whose objects from this number on are new? */
static inline bool may_lend(struct kmem_cache *s, gfp_t gfp, const struct sheaf *sheaf,
			    unsigned int from)
{
	return !os_watched() || !account_charges(s, gfp) || account_lent(s, sheaf, from);
}

/* Hand the sheaf to the user, who already had `had` of its objects. */
static struct slab_sheaf *to_user(struct kmem_cache *s, struct sheaf *sheaf, unsigned int had)
{
	if (os_watched() && sheaf) {
		tsan_acquire(sheaf);
		cache_sample_among(s, sheaf->size - had, sheaf->objects + had);
		watch_lent(s, sheaf, had);
		/* A pop charges, and the inlined one does not. */
		if (account_charges(s, 0))
			prefill_hide(&s->sheaf, sheaf);
	}
	return (struct slab_sheaf *)sheaf;
}

/* Leave out samples, which sheaves do not hold, and objects that may not be freed. */
static OS_COLD void watch_returned(struct kmem_cache *s, struct sheaf *sheaf)
{
	const char *call = "kmem_cache_return_sheaf";
	unsigned int n = cache_free_all_guarded(s, sheaf->objects, sheaf->size, call), left = 0;

	for (unsigned int i = 0; i < n; i++)
		if (!cache_is_hardened(s) || hardened_free(s, sheaf->objects[i], call))
			sheaf->objects[left++] = sheaf->objects[i];
	sheaf_set_size(sheaf, left);
	tsan_release(sheaf);
	cache_leave();
}

/* The user returns the sheaf. */
static void from_user(struct kmem_cache *s, struct sheaf *sheaf)
{
	if (os_watched())
		watch_returned(s, sheaf);
}

/* It is no spare: the slot has one, or the sheaf does not fit. */
static OS_NOINLINE void give_back_elsewhere(struct kmem_cache *s, struct sheaf *sheaf)
{
	if (is_oversize(s, sheaf)) {
		cache_free_all(s, sheaf->size, sheaf->objects);
		sheaf_set_size(sheaf, 0);
	}
	prefill_return(&s->sheaf, sheaf);
	cache_leave();
}

static void give_back(struct kmem_cache *s, struct sheaf *sheaf)
{
	if (cache_is_leaked(s) || !prefill_return_spare(&s->sheaf, sheaf))
		give_back_elsewhere(s, sheaf);
}

/* The user does not get it. */
static OS_COLD struct sheaf *fail_prefill(struct kmem_cache *s, struct sheaf *sheaf)
{
	tsan_release(sheaf);
	give_back(s, sheaf);
	return NULL;
}

/* A sheaf that the user did not have, or NULL. */
static OS_COLD OS_NOINLINE struct slab_sheaf *lend_watched(struct kmem_cache *s, gfp_t gfp,
							   struct sheaf *sheaf)
{
	if (sheaf && !may_lend(s, gfp, sheaf, 0))
		sheaf = fail_prefill(s, sheaf);
	return to_user(s, sheaf, 0);
}

static inline struct slab_sheaf *lend_new(struct kmem_cache *s, gfp_t gfp, struct sheaf *sheaf)
{
	return os_watched() ? lend_watched(s, gfp, sheaf) : (struct slab_sheaf *)sheaf;
}

static struct sheaf *lend_filled(struct kmem_cache *s, gfp_t gfp, struct sheaf *spare,
				 unsigned int n)
{
	struct sheaf *sheaf;
	int tries = 0;

	do {
		sheaf = spare || n <= sheaf_capacity(&s->sheaf)
				? prefill_lend(&s->sheaf, spare, n)
				: prefill_lend_oversize(&s->sheaf, n);
		spare = NULL;
	} while (!sheaf && reclaim_for(s, gfp, tries++));
	if (!sheaf)
		cache_count_failure(s);
	cache_see_flow(s);
	return sheaf;
}

static bool is_too_large(const struct kmem_cache *s, unsigned int n, const char *call)
{
	if (n <= PREFILL_MAX)
		return false;
	os_misuse(s->name,
		  "%s(%s, %u objects): a sheaf holds at most %u; ignored. Use several sheaves",
		  call, s->name, n, PREFILL_MAX);
	return true;
}

/* More objects than the spare has, or there is no spare; an existing spare is filled first. */
static OS_COLD struct sheaf *prefill(struct kmem_cache *s, gfp_t gfp, struct sheaf *spare,
				     unsigned int n)
{
	struct sheaf *sheaf;

	if (cache_is_unusable(s, "kmem_cache_prefill_sheaf") || !n ||
	    is_too_large(s, n, "kmem_cache_prefill_sheaf"))
		return NULL;
	gfp = gfp_of_sheaf(s, gfp);
	reclaim_if_above_soft(gfp);
	sheaf = lend_filled(s, gfp, spare, n);
	if (sheaf && !fill_sheaf(s, sheaf, gfp, n))
		sheaf = fail_prefill(s, sheaf);
	cache_leave();
	return sheaf;
}

SHEAF_PUBLIC struct slab_sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *s, gfp_t gfp,
							 unsigned int size)
{
	struct sheaf *sheaf = NULL;

	if (cache_is_null(s, "kmem_cache_prefill_sheaf"))
		return NULL;
	if (size - 1 < sheaf_capacity(&s->sheaf))
		sheaf = prefill_lend_spare(&s->sheaf);
	if (!sheaf || sheaf->size < size)
		sheaf = prefill(s, gfp, sheaf, size);
	return lend_new(s, gfp, sheaf);
}

SHEAF_PUBLIC int kmem_cache_refill_sheaf(struct kmem_cache *s, gfp_t gfp,
					 struct slab_sheaf **sheafp, unsigned int size)
{
	struct sheaf *sheaf = sheafp ? of_user(*sheafp) : NULL;
	struct slab_sheaf *larger;

	if (cache_is_unusable(s, "kmem_cache_refill_sheaf"))
		return -EINVAL;
	if (!sheaf)
		os_misuse(s->name,
			  "kmem_cache_refill_sheaf(%s): the sheaf is NULL; ignored. Create one "
			  "with kmem_cache_prefill_sheaf()",
			  s->name);
	if (!is_out(s, sheaf, "kmem_cache_refill_sheaf") ||
	    is_too_large(s, size, "kmem_cache_refill_sheaf"))
		return -EINVAL;
	if (size <= sheaf->size)
		return 0;
	gfp = gfp_of_sheaf(s, gfp);
	if (size <= sheaf_room(sheaf)) {
		unsigned int had = sheaf->size;
		bool done;

		reclaim_if_above_soft(gfp);
		done = fill_sheaf(s, sheaf, gfp, size);
		if (!may_lend(s, gfp, sheaf, had)) {
			cache_free_all(s, sheaf->size - had, sheaf->objects + had);
			sheaf_set_size(sheaf, had);
			done = false;
		}
		to_user(s, sheaf, had);
		cache_leave();
		return done ? 0 : -ENOMEM;
	}
	larger = lend_new(s, gfp, prefill(s, gfp, NULL, size));
	if (!larger)
		return -ENOMEM;
	from_user(s, sheaf);
	give_back(s, sheaf);
	*sheafp = larger;
	tools_wrote(sheafp, sizeof(*sheafp));
	return 0;
}

SHEAF_PUBLIC void kmem_cache_return_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf *sheaf)
{
	(void)gfp;
	/* Early: otherwise gcc takes the rest for cold. */
	if (!sheaf || cache_is_gone(s, "kmem_cache_return_sheaf"))
		return;
	if (is_out(s, of_user(sheaf), "kmem_cache_return_sheaf")) {
		from_user(s, of_user(sheaf));
		give_back(s, of_user(sheaf));
	}
}

static OS_COLD void clear_object(struct kmem_cache *s, void *object, gfp_t gfp)
{
	if (object && (cache_check_gfp_later(s, gfp) & __GFP_ZERO))
		cache_zero(s, object);
	os_report_kept_nowait();
}

SHEAF_PUBLIC void *__kmem_cache_alloc_from_sheaf(struct kmem_cache *s, gfp_t gfp,
						 struct slab_sheaf *sheaf)
{
	void *object;

	if (!s)
		cache_is_unusable_nowait(s, "kmem_cache_alloc_from_sheaf");
	if (!s || !is_out(s, of_user(sheaf), "kmem_cache_alloc_from_sheaf"))
		return NULL;
	object = prefill_pop(of_user(sheaf));
	if (os_watched() && object)
		account_taken_nowait(s, gfp, object, GROUP_FORCE);
	if (gfp & ~SHEAF_GFP_PLAIN)
		clear_object(s, object, gfp);
	return object;
}

SHEAF_PUBLIC unsigned int kmem_cache_sheaf_size(struct slab_sheaf *sheaf)
{
	if (!sheaf)
		return 0;
	if (of_user(sheaf)->lent_by)
		return of_user(sheaf)->size;
	os_misuse_later(NULL,
			"kmem_cache_sheaf_size(%p): not a prefilled sheaf, or already returned; 0 "
			"is returned. Return it once, after its last use",
			(void *)sheaf);
	os_report_kept_nowait();
	return 0;
}
