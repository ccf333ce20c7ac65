/* SPDX-License-Identifier: MIT */
/*
 * The calls of caches with charged objects: as in fast.c, with a second section, that of a stock
 * (group/stock.h), and with the number of the group in the slab's array of owners. None of the
 * three touches a line of another CPU, as long as the stock lasts.
 */
#include "cache/account.h"

#include "os/rseq.h"

/* --- any cache -------------------------------------------------------------------------------- */

static OS_COLD void *alloc_accounted(struct kmem_cache *s, gfp_t flags)
{
	uint32_t number = account_number(s);

	flags &= ~__GFP_ACCOUNT;
	return number ? account_alloc_for(s, flags, NUMA_NO_NODE, number)
		      : account_alloc_unpaid(s, flags, NUMA_NO_NODE);
}

static OS_COLD void free_accounted(struct kmem_cache *s, void *object)
{
	const char *call = cache_free_call(s);

	if (!cache_watch_free(s, object, call)) {
		cache_leave();
	} else if (section_push(&s->sheaf.at, object)) {
		group_leave();
	} else {
		cache_free_slow(s, object, call);
		cache_leave();
	}
}

/* --- a cache whose calls are sections --------------------------------------------------------- */

#ifdef HAVE_RSEQ
/*
 * owner_at() in few instructions. An object that was in a sheaf is in a slab of this cache, so an
 * allocation need not check that.
 */
#define INLINE static OS_ALWAYS_INLINE

INLINE const struct slab *page_of(const void *object)
{
	return (const struct slab *)(pages.slab_of_0 +
				     ((uintptr_t)object >> OS_PAGE_SHIFT) * sizeof(struct slab));
}

INLINE uint32_t *number_place(const struct kmem_cache *s, const void *object)
{
	uintptr_t page = (uintptr_t)object >> OS_PAGE_SHIFT;
	const uint64_t *word = owner_in_words(&s->sheaf.slab)
				       ? (const uint64_t *)(pages.words_of_0 +
							    page * PAGE_WORDS * sizeof(uint64_t)) +
						 OWNER_WORD
				       : &page_of(object)->bits;
	uint32_t *numbers = (uint32_t *)(uintptr_t)*word;

	return &numbers[((uintptr_t)object & (OS_PAGE - 1)) >> s->owner_shift];
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && (SLAB_OWNED >> 32) != 0,
	       "the flag is in the second half of a state");

/* A plain read of half of the word is tested in memory, by one instruction. The flag does not
 * change while the caller has an object of the slab. */
INLINE bool is_owned(const void *object)
{
	typedef uint32_t __attribute__((may_alias)) half;
	const half *state = (const half *)&page_of(object)->state;

	return state[1] & SLAB_OWNED >> 32;
}

/* Where few objects are charged, most slabs have no numbers: then the cache is not read. */
INLINE bool may_have_number(const struct kmem_cache *s, const void *object)
{
	return os_likely((uintptr_t)object - (uintptr_t)pages.base <
			 os_load_relaxed(&pages.readable)) &&
	       os_likely(is_owned(object)) &&
	       os_likely(os_load_relaxed(&page_of(object)->cache) == &s->sheaf.slab);
}

static inline char *cell_of(uint32_t number)
{
	return stocks[0].handle + (number & STOCK_AT);
}

static OS_COLD void uncharge_and_free(struct kmem_cache *s, void *object, uint32_t number)
{
	stock_uncharge(number, s->sheaf.slab.size);
	cache_base_calls(s).free(s, object);
	cache_leave();
}

static OS_COLD void free_charged_slow(struct kmem_cache *s, void *object)
{
	cache_free_slow(s, object, cache_free_call(s));
	cache_leave();
}

#define DEFINE_FAST(linkage, kind)                                                                 \
	linkage OS_FAST void *account_alloc_fast##kind(struct kmem_cache *s, gfp_t flags)          \
	{                                                                                          \
		uint32_t number = account_number(s), by = os.id_offset;                            \
		ptrdiff_t area = s->words.area;                                                    \
		void *object;                                                                      \
                                                                                                   \
		if (os_unlikely(!number) ||                                                        \
		    os_unlikely(flags & ~(SHEAF_GFP_PLAIN | __GFP_ACCOUNT)) ||                     \
		    os_unlikely(!rseq_pop##kind(area, by, (char *)s, &object)))                    \
			return alloc_accounted(s, flags);                                          \
		if (os_unlikely(!is_owned(object)))                                                \
			return account_finish(s, flags, object);                                   \
		/* Before the section, which then leaves all values in free registers. */          \
		os_store_relaxed(number_place(s, object), number);                                 \
		if (os_unlikely(!rseq_stock_less(area, by, cell_of(number), stock_word(number, 0), \
						 s->sheaf.slab.size)))                             \
			return account_finish(s, flags, object);                                   \
		return object;                                                                     \
	}                                                                                          \
                                                                                                   \
	linkage OS_FAST void account_free_fast##kind(struct kmem_cache *s, void *object)           \
	{                                                                                          \
		uint32_t *at, number = GROUP_NONE, by = os.id_offset;                              \
		ptrdiff_t area = s->words.area;                                                    \
		bool done;                                                                         \
                                                                                                   \
		if (os_likely(may_have_number(s, object))) {                                       \
			at = number_place(s, object);                                              \
			number = os_load_relaxed(at);                                              \
		}                                                                                  \
		if (os_likely((int32_t)number > 0)) {                                              \
			os_store_relaxed(at, GROUP_NONE);                                          \
			if (os_unlikely(!rseq_stock_more(area, by, cell_of(number),                \
							 stock_word(number, 0),                    \
							 s->sheaf.slab.size))) {                   \
				uncharge_and_free(s, object, number);                              \
				return;                                                            \
			}                                                                          \
			done = rseq_push_again##kind(area, by, (char *)s, object);                 \
		} else {                                                                           \
			done = rseq_push##kind(area, by, (char *)s, object);                       \
		}                                                                                  \
		if (os_unlikely(!done))                                                            \
			free_charged_slow(s, object);                                              \
	}

DEFINE_FAST(, )
DEFINE_FAST(static, _counted)
#define FAST_CALLS(kind) ((struct cache_calls){account_alloc_fast##kind, account_free_fast##kind})
#endif

static struct cache_calls charged_calls(const struct kmem_cache *s)
{
	struct cache_calls calls = CACHE_CALLS(accounted);

#ifdef HAVE_RSEQ
	if (cache_frees_plainly(s))
		calls = os.counting ? FAST_CALLS(_counted) : FAST_CALLS();
#endif
	if (cache_is_sampled(s))
		calls.alloc = alloc_accounted;
	return calls;
}

void *account_alloc_charged(struct kmem_cache *s, gfp_t flags)
{
	if (os_load_relaxed(&s->accounted) == ACCOUNT_ALL)
		return cache_alloc(s, flags);
	return charged_calls(s).alloc(s, flags);
}

struct cache_calls account_calls(struct kmem_cache *s, struct cache_calls base)
{
	uint32_t accounted = os_load_relaxed(&s->accounted);
	struct cache_calls calls = charged_calls(s);

	if (accounted)
		base.free = calls.free;
	if (accounted == ACCOUNT_ALL)
		base.alloc = calls.alloc;
	return base;
}
