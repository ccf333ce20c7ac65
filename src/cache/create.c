/* SPDX-License-Identifier: MIT */
/* Create: check the arguments, then share a cache with the same layout or create a new one. */

#include "cache/account.h"
#include "cache/block.h"
#include "cache/hardened.h"
#include "cache/housekeeping.h"
#include "cache/list.h"
#include "cache/publish.h"
#include "cache/sampling.h"
#include "cache/sizes.h"
#include "os/sized.h"
#include "percpu/barn/barn.h"
#include "percpu/rows.h"
#include "slab/rcu_free_slab.h"

#define CACHE_LINE 64u
#define WORD	   ((unsigned int)sizeof(void *))
#define NAME_SHOWN 127
#define MOST_ALIGN ((size_t)1 << 20)
#define BEST_ALIGN "use a power of two up to 1048576, or 0"
/* Larger objects go from a slab to the program and back: a full sheaf of one on each CPU would be
 * too much. */
#define MOST_SHEAF_OBJECT ((size_t)1 << 20)
#define FLAGS_KNOWN	  FLAGS_OF(SLAB_PUBLIC_FLAGS)

static bool wrong(const char *name, const char *what, size_t value, const char *do_this)
{
	os_misuse(name, "kmem_cache_create(%s): invalid %s %zu; %s", name, what, value, do_this);
	return false;
}

static bool check_rcu(const char *name, const struct kmem_cache_args *args, slab_flags_t flags)
{
	struct sheaf_rcu_ops provider;
	const char *fault;

	if (grace_of(args->rcu) || !(args->rcu || (flags & SLAB_TYPESAFE_BY_RCU)) ||
	    (!args->rcu && cache_has_no_readers(NULL)))
		return true;
	if (args->rcu)
		fault = provider_read(&provider, args->rcu);
	else
		fault = "SLAB_TYPESAFE_BY_RCU needs an RCU provider first: see "
			"sheaf_rcu_register() in <sheaf/rcu.h>";
	if (fault)
		os_misuse(name, "kmem_cache_create(%s): %s", name, fault);
	else
		os_report("kmem_cache_create(%s): out of memory", name);
	return false;
}

static bool check_args(const char *name, size_t size, struct kmem_cache_args *args,
		       slab_flags_t flags, slab_flags_t known)
{
	if (size == 0 || size > KMEM_CACHE_MAX_SIZE)
		return wrong(name, "size", size, "use 1 to 4194304 bytes");
	if (args->align & (args->align - 1) || args->align > MOST_ALIGN)
		return wrong(name, "align", args->align, BEST_ALIGN);
	if (flags & ~known)
		return wrong(name, "flags with unknown bit", flags & ~known,
			     "use the SLAB_ names of <sheaf/slab.h>");
	if (flags & SLAB_SECRET &&
	    (args->ctor || flags & (SLAB_TYPESAFE_BY_RCU | DEBUG_FLAGS | CACHE_KMALLOC)))
		return wrong(name, "flags", flags,
			     "SLAB_SECRET clears objects and shows none: use it without a "
			     "constructor, SLAB_TYPESAFE_BY_RCU and flags of slab_debug, and not "
			     "for kmem_buckets, whose large blocks are not locked");
	if (args->sheaf_capacity > SHEAF_CAPACITY_MAX)
		return wrong(name, "sheaf_capacity", args->sheaf_capacity, "use at most 4096");
	if (args->use_freeptr_offset &&
	    ((!args->ctor && !(flags & SLAB_TYPESAFE_BY_RCU)) || args->freeptr_offset % WORD ||
	     args->freeptr_offset + (size_t)WORD > size))
		return wrong(name, "freeptr_offset", args->freeptr_offset,
			     "it needs a ctor or SLAB_TYPESAFE_BY_RCU, and must be a multiple of "
			     "the word size inside the object");
	if (!check_rcu(name, args, flags) ||
	    (args->group && !group_check(args->group, "kmem_cache_create")))
		return false;
	if (args->useroffset > size || args->usersize > size - args->useroffset) {
		os_misuse(name,
			  "kmem_cache_create(%s): usersize %u at %u is not inside the object; "
			  "ignored",
			  name, args->usersize, args->useroffset);
		args->useroffset = args->usersize = 0;
	}
	return true;
}

/* Kernel: calculate_alignment(). */
static unsigned int alignment(size_t size, unsigned int align, slab_flags_t flags)
{
	if (flags & SLAB_HWCACHE_ALIGN) {
		unsigned int line = CACHE_LINE;

		while (size <= line / 2)
			line /= 2;
		align = align > line ? align : line;
	}
	return align > WORD ? align : WORD;
}

static bool mergeable(const struct kmem_cache_args *args, slab_flags_t flags)
{
	return !os_options.nomerge &&
	       !(flags & (SLAB_NO_MERGE | SLAB_SECRET | SLAB_TYPESAFE_BY_RCU | CACHE_DEBUG)) &&
	       !args->ctor && !args->usersize && !args->sheaf_capacity && !args->barn_objects &&
	       !args->barn_bytes && !args->rcu && !args->group && !args->limit;
}

static void warn_name_in_use(const char *name)
{
	if (list_has_name(name))
		os_report_once_later(
			&caches.warned_name,
			"kmem_cache_create(%s): a cache with this name exists. Both work, but "
			"reports cannot distinguish them",
			name);
}

/* What SHEAF_OPTIONS says, or else the library, at least what the program wants. */
static unsigned int first_capacity(const struct kmem_cache *s, const struct kmem_cache_args *args,
				   bool by_options)
{
	unsigned int first = size_first_capacity(s->sheaf.slab.size);

	if (s->flags & SLAB_NO_SHEAVES)
		return 0;
	return by_options || first < args->sheaf_capacity ? args->sheaf_capacity : first;
}

/* What is not the library's choice. */
static void set_sizes(struct kmem_cache *s, unsigned int capacity,
		      const struct kmem_cache_args *args, bool by_options)
{
	slab_rest(&s->sheaf.slab)->usersize = args->usersize;
	if (args->limit) {
		slab_rest(&s->sheaf.slab)->limit = args->limit;
		size_note(s, SIZE_LIMIT, SIZE_BY_PROGRAM);
	}
	if (!capacity)
		return;
	if (args->sheaf_capacity) {
		sheaf_set_capacity(&s->sheaf, capacity);
		size_note(s, SIZE_CAPACITY, by_options ? SIZE_BY_OPTIONS : SIZE_BY_PROGRAM);
	}
	if (args->barn_objects || args->barn_bytes) {
		sheaf_set_barn(&s->sheaf, args->barn_objects, args->barn_bytes);
		size_note(s, SIZE_BARN_FULL, SIZE_BY_PROGRAM);
	}
}

static bool lay_out(struct kmem_cache *s, size_t size, const struct kmem_cache_args *args,
		    bool by_options)
{
	struct slab_request request = {
		.name = s->name,
		.object_size = (uint32_t)size,
		.align = alignment(size, args->align, s->flags),
		.ctor = args->ctor,
		.fill = s->flags & CACHE_KMALLOC,
		.secret = s->flags & SLAB_SECRET,
	};
	unsigned int capacity;

	if (!(s->flags & CACHE_DEBUG ? debug_cache_init(&s->sheaf.slab, &request, s->flags)
				     : slab_cache_init(&s->sheaf.slab, &request)))
		return false;
	s->sheaf.slab.counted = os.counting ? s : NULL;
	s->sheaf.sampled = sampling_wanted(s);
	capacity = first_capacity(s, args, by_options);
	if (!sheaf_cache_init(&s->sheaf, s, capacity)) {
		debug_cache_exit(&s->sheaf.slab);
		return false;
	}
	set_sizes(s, capacity, args, by_options);
	return true;
}

/* A cache's own provider is set from the beginning; the process's provider is looked up when it is
 * needed. */
static bool begin_rcu(struct kmem_cache *s, const struct kmem_cache_args *args)
{
	struct grace *grace = grace_of(args->rcu);

	if (args->rcu && (!rcu_any_init(grace, &block_rcu_ops) || !cache_begin_rcu(s, grace)))
		return false;
	return !(s->flags & SLAB_TYPESAFE_BY_RCU) || cache_has_no_readers(grace) ||
	       late_init(&s->sheaf.slab, grace);
}

static void unmake_cache(struct kmem_cache *s)
{
	cache_leave_group(s);
	if (s->name)
		list_forget_name(s);
	rows_give(s);
}

static struct kmem_cache *make_cache(const char *name, size_t size,
				     const struct kmem_cache_args *args, slab_flags_t flags,
				     bool by_options)
{
	struct kmem_cache *s = rows_take();

	if (!s)
		return NULL;
	s->flags = flags | hardened_flags(flags, args->ctor);
	/* Caches of secrets are hardened without an option: from the first one on, slow calls look
	 * at the cache first. Bulk calls do so for samples, too. */
	if ((s->flags & CACHE_HARDENED || sampling_wanted(s)) && !os_watched())
		os_store_relaxed(&os.watched, 1);
	s->nr_names = 1;
	s->id = ++caches.nr_made;
	s->unmergeable = !mergeable(args, flags);
	if (args->group && group_get(args->group))
		s->group = args->group->number;
	/* Programs built with the thread sanitizer would see later changes. */
	if (flags & SLAB_ACCOUNT && (groups_exist() || tsan_is_on()))
		s->accounted = ACCOUNT_ALL;
	if (!list_name(s, name) || !lay_out(s, size, args, by_options)) {
		unmake_cache(s);
		return NULL;
	}
	s->owner_shift = (uint8_t)owner_shift(&s->sheaf.slab);
	cache_choose_calls(s);
	if (!begin_rcu(s, args)) {
		cache_leave_group(s);
		cache_unmake(s);
		rows_give(s);
		return NULL;
	}
	list_add(s);
	return s;
}

static void clean_name(char *clean, const char *name)
{
	if (!name) {
		name = "(no name)";
		os_misuse(NULL,
			  "kmem_cache_create: the name is NULL; \"%s\" is used. Name the cache: "
			  "reports identify caches by name",
			  name);
	}
	os_clean_name(clean, NAME_SHOWN + 1, name);
}

/* These flags, and those that slab_debug adds. */
static slab_flags_t with_debug(const char *name, slab_flags_t flags)
{
	slab_flags_t wanted = debug_flags_of(name, flags);

	/* Readers may look at the cache's free objects: no access faults, but calls are checked. */
	if (flags & SLAB_TYPESAFE_BY_RCU) {
		if (wanted & DEBUG_GUARD)
			wanted |= SLAB_CONSISTENCY_CHECKS;
		wanted &= ~(DEBUG_GUARD | DEBUG_SAMPLE);
	}
	if (!(wanted & ~DEBUG_SAMPLE))
		return flags | wanted;
	return flags | wanted | SLAB_NO_SHEAVES | CACHE_DEBUG;
}

static struct kmem_cache *create(const char *name, size_t size, struct kmem_cache_args *args,
				 slab_flags_t flags, slab_flags_t known, bool wait)
{
	const struct os_name *by_options = NULL;
	struct kmem_cache *s = NULL;

	if (!caches_ready() || !check_args(name, size, args, flags, known))
		return NULL;
	if (args->group)
		flags |= SLAB_ACCOUNT;
	flags = with_debug(name, flags);
	if (os_options.tiny || size > MOST_SHEAF_OBJECT)
		flags |= SLAB_NO_SHEAVES;
	if (!(flags & SLAB_NO_SHEAVES))
		by_options = os_names_find(&os_capacities, name);
	if (by_options)
		args->sheaf_capacity = by_options->value;
	if (flags & DEBUG_QUARANTINE)
		quarantine_begin();
	if (args->barn_objects || args->barn_bytes)
		housekeeping_know_grants();
	if (wait)
		os_lock(&caches.lock);
	else if (!os_trylock(&caches.lock))
		return NULL;
	if (flags & (DEBUG_GUARD | DEBUG_SAMPLE) || profile_is_on())
		guard_begin();
	warn_name_in_use(name);
	if (mergeable(args, flags))
		s = list_find(size, alignment(size, args->align, flags), flags);
	if (s) {
		os_store_relaxed(&s->nr_names, s->nr_names + 1);
		if (s->sheaf.slab.object_size < size)
			s->sheaf.slab.object_size = (uint32_t)size;
		publish_alias(s, name);
	} else {
		s = make_cache(name, size, args, flags, by_options);
	}
	if (s)
		publish_cache(s);
	os_unlock(&caches.lock);
	return s;
}

/* A newer header may have fields in these places. */
static bool uses_reserved(const struct kmem_cache_args *args)
{
	return args->reserved[0] || args->reserved[1] || args->reserved[2] || args->reserved2;
}

static void panic_if_wanted(const char *name, size_t size, slab_flags_t flags)
{
	if (flags & SLAB_PANIC)
		os_fatal("kmem_cache_create(%s, %zu bytes) failed, and SLAB_PANIC is set", name,
			 size);
}

/* args has args_size bytes, which may be more or fewer than in this version. */
static struct kmem_cache *create_sized(const char *name, size_t size, const void *args,
				       size_t args_size, slab_flags_t flags, slab_flags_t known,
				       bool wait)
{
	struct kmem_cache_args own;
	char clean[NAME_SHOWN + 1];
	struct kmem_cache *s = NULL;

	clean_name(clean, name);
	if (!os_sized_whole(args_size))
		wrong(clean, "args_size", args_size, "pass sizeof(struct kmem_cache_args)");
	else if (os_sized_copy(&own, sizeof(own), args, args_size) && !uses_reserved(&own))
		s = create(clean, size, &own, flags, known, wait);
	else
		os_misuse(clean,
			  "kmem_cache_create(%s): kmem_cache_args has fields that this version "
			  "does not know. Use the library that belongs to the header the program "
			  "was built with",
			  clean);
	if (!s)
		panic_if_wanted(clean, size, flags);
	return s;
}

struct kmem_cache *cache_create(const char *name, size_t size, const struct kmem_cache_args *args,
				slab_flags_t flags, bool wait)
{
	return create_sized(name, size, args, sizeof(*args), flags, FLAGS_KNOWN | CACHE_KMALLOC,
			    wait);
}

SHEAF_PUBLIC struct kmem_cache *__kmem_cache_create_args(const char *name, size_t size,
							 const struct kmem_cache_args *args,
							 size_t args_size, slab_flags_t flags)
{
	struct kmem_cache *s =
		create_sized(name, size, args, args ? args_size : 0, flags, FLAGS_KNOWN, true);

	os_report_kept();
	return s;
}

/* A value that is too large becomes the largest one, which the checks refuse. */
static unsigned int fit_uint(size_t n)
{
	return n > UINT32_MAX ? UINT32_MAX : (unsigned int)n;
}

SHEAF_PUBLIC struct kmem_cache *kmem_cache_create_usercopy(const char *name, size_t size,
							   size_t align, slab_flags_t flags,
							   size_t useroffset, size_t usersize,
							   void (*ctor)(void *object))
{
	const struct kmem_cache_args args = {.align = (unsigned int)align,
					     .useroffset = fit_uint(useroffset),
					     .usersize = fit_uint(usersize),
					     .ctor = ctor};
	char clean[NAME_SHOWN + 1];

	/* It does not fit the structure, and the report shall show it. */
	if (align > UINT32_MAX) {
		clean_name(clean, name);
		wrong(clean, "align", align, BEST_ALIGN);
		panic_if_wanted(clean, size, flags);
		return NULL;
	}
	return __kmem_cache_create_args(name, size, &args, sizeof(args), flags);
}

SHEAF_PUBLIC struct kmem_cache *__kmem_cache_create(const char *name, size_t size, size_t align,
						    slab_flags_t flags, void (*ctor)(void *object))
{
	return kmem_cache_create_usercopy(name, size, align, flags, 0, 0, ctor);
}
