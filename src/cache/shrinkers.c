/* SPDX-License-Identifier: MIT */
/* Registers shrinkers and runs them; see shrinkers.h. */
#include "cache/shrinkers.h"

#include <stdarg.h>
#include <stdio.h>

#include "cache/process.h"
#include "os/sized.h"
#include "page/pool.h"

#define BATCH	     128  /* objects a call, as in the kernel */
#define SIZE_MOST    4096 /* bytes of a later header's struct shrinker, */
#define CONTROL_MOST 256  /* and of its struct shrink_control */

struct registered {
	struct registered *next; /* of those on the list, or of those that were freed */
	uintptr_t waits;	 /* the thread that frees its memory; 0: whoever uses it last */
	uint32_t bytes;		 /* with those of the program's structure that are unknown here */
	uint32_t held;		 /* references of shrinker_try_get() */
	uint8_t listed, gone;	 /* is on the list; was freed */
	char name[SHRINKER_NAME];
	struct shrinker shrinker; /* what the program sees: last, because its header may be newer */
};

_Static_assert(sizeof(struct registered) ==
		       offsetof(struct registered, shrinker) + sizeof(struct shrinker),
	       "its unknown members follow immediately");

/* What a callback sees: its header may be newer. */
union control {
	struct shrink_control sc;
	char room[CONTROL_MOST];
};

static struct registered *registered_of(struct shrinker *shrinker)
{
	return (struct registered *)(void *)((char *)shrinker -
					     offsetof(struct registered, shrinker));
}

struct shrinkers shrinkers = {.lock = OS_LOCK_INIT(OS_RANK_SHRINKERS)};

/* --- runs ------------------------------------------------------------------------------------- */

/* The run of this thread, or NULL. */
static struct shrinkers_run *my_run(void)
{
	uintptr_t thread = os_self();

	for (unsigned int i = 0; i < SHRINKERS_RUNS; i++)
		if (os_load_relaxed(&shrinkers.runs[i].thread) == thread)
			return &shrinkers.runs[i];
	return NULL;
}

/* Claim a run; NULL: there is no room. */
static struct shrinkers_run *free_place(void)
{
	for (unsigned int i = 0; i < SHRINKERS_RUNS; i++) {
		uintptr_t none = 0;

		if (os_cmpxchg(&shrinkers.runs[i].thread, &none, os_self()))
			return &shrinkers.runs[i];
	}
	return NULL;
}

/* Runs of this thread. */
static __attribute__((unused)) unsigned int my_runs(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < SHRINKERS_RUNS; i++)
		n += os_peek(&shrinkers.runs[i].thread) == os_self();
	return n;
}

/* With the lock held. */
static bool is_run(const struct registered *r)
{
	for (unsigned int i = 0; i < SHRINKERS_RUNS; i++)
		if (os_load_relaxed(&shrinkers.runs[i].at) == r)
			return true;
	return false;
}

static bool is_used(const struct registered *r)
{
	return r->held || is_run(r);
}

static void take_off(struct registered **at, struct registered *r)
{
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
}

/* With the lock held: true if the caller must free its memory now. */
static bool ends(struct registered *r)
{
	bool last = r->gone && !r->waits && !is_used(r);

	if (last)
		take_off(&shrinkers.ending, r);
	return last;
}

/* Advance to the next shrinker, or from NULL to the first one. The previous one may be freed. */
static struct registered *next_run(struct shrinkers_run *run)
{
	struct registered *before = run->at, *next;
	bool last;

	os_lock(&shrinkers.lock);
	next = before ? (before->gone ? run->next : before->next) : shrinkers.first;
	os_store_relaxed(&run->at, next);
	last = before && ends(before);
	os_assert(!next || (next->listed && !next->gone)); /* SHRINKERS-S2 */
	os_assert(!last || !before->listed);		   /* SHRINKERS-S2 */
	os_unlock(&shrinkers.lock);
	if (last)
		pool_free(before, before->bytes);
	return next;
}

/* A run whose callback was left: release its shrinker. */
static void end_left_run(struct shrinkers_run *run)
{
	os_report_once_later(&shrinkers.reported_left,
			     "shrinkers: a callback was left by longjmp() or an exception, or "
			     "switched stacks; shrinkers will be asked again. It must return");
	os_leave_left_program(run->call);
	while (next_run(run))
		;
}

/* NULL: there is no room, or this thread is in a callback. */
static struct shrinkers_run *begin_run(uintptr_t here)
{
	struct shrinkers_run *run = my_run();

	if (run && !os_program_was_left(&run->call, here))
		return NULL;
	if (run)
		end_left_run(run);
	return run ? run : free_place();
}

/* Not if the callback seemed left, and others have the run. */
static bool is_mine(struct shrinkers_run *run, const struct os_program *call)
{
	return os_load_relaxed(&run->thread) == os_self() && run->call.frame == call->frame;
}

/* --- one shrinker ----------------------------------------------------------------------------- */

/* How many of these objects to scan: the kernel's rule. */
static unsigned long to_scan(const struct shrinker *s, unsigned long freeable, unsigned int part)
{
	unsigned long n;

	if (!part)
		return freeable;
	n = s->seeks > 0 ? (freeable >> part) * 4 / (unsigned int)s->seeks : freeable / 2;
	return n ? n : 1;
}

static void run_one(struct registered *r, gfp_t flags, unsigned int part)
{
	struct shrinker *s = &r->shrinker;
	union control control = {.room = {0}};
	struct shrink_control *sc = &control.sc;
	unsigned long batch = s->batch > 0 ? (unsigned long)s->batch : BATCH;
	unsigned long freeable, left, freed;

	sc->gfp_mask = flags;
	freeable = s->count_objects(s, sc);
	if (!freeable || freeable == SHRINK_EMPTY || freeable == SHRINK_STOP)
		return;
	for (left = to_scan(s, freeable, part); left && !os_load_relaxed(&r->gone);) {
		sc->nr_to_scan = sc->nr_scanned = left < batch ? left : batch;
		freed = s->scan_objects(s, sc);
		if (freed == SHRINK_STOP)
			break;
		os_fetch_add_relaxed(&shrinkers.freed, freed);
		/* One that scans nothing makes no progress. */
		if (!sc->nr_scanned || sc->nr_scanned > left)
			break;
		left -= sc->nr_scanned;
	}
}

void shrinkers_run(gfp_t flags, unsigned int part)
{
	struct shrinkers_run *run;
	struct os_program call;
	struct registered *r;

	os_assert(gfpflags_allow_blocking(flags)); /* RECLAIM-R1 */
	if (!shrinkers_exist())
		return;
	run = begin_run((uintptr_t)__builtin_frame_address(0));
	if (!run)
		return;
	os_assert(os_holds_nothing("runs a shrinker"));	 /* SHRINKERS-S3 */
	os_assert(my_runs() == 1 && !os_peek(&run->at)); /* SHRINKERS-S1 */
	call = run->call = os_enter_watched();
	while (is_mine(run, &call) && (r = next_run(run)) != NULL)
		run_one(r, flags, part);
	os_leave_program(call);
	if (is_mine(run, &call))
		os_store_release(&run->thread, 0);
}

/* --- the calls -------------------------------------------------------------------------------- */

static bool sizes_possible(size_t size, size_t control_size)
{
	return os_sized_whole(size) && size <= SIZE_MOST && os_sized_whole(control_size) &&
	       control_size <= CONTROL_MOST;
}

static struct registered *make_registered(size_t size, const char name[SHRINKER_NAME])
{
	size_t own = sizeof(struct shrinker);
	size_t bytes = sizeof(struct registered) + (size > own ? size - own : 0);
	struct registered *r = caches_ready() ? pool_alloc(bytes) : NULL;

	if (!r)
		return NULL;
	r->bytes = (uint32_t)bytes;
	memcpy(r->name, name, SHRINKER_NAME);
	r->shrinker.seeks = DEFAULT_SEEKS;
	return r;
}

SHEAF_PUBLIC struct shrinker *__shrinker_alloc(size_t shrinker_size, size_t control_size,
					       unsigned int flags, const char *fmt, ...)
{
	OS_KEEP_ERRNO;
	char given[SHRINKER_NAME], name[SHRINKER_NAME];
	struct registered *r = NULL;
	va_list arguments;

	(void)flags;
	va_start(arguments, fmt);
	vsnprintf(given, sizeof(given), fmt, arguments);
	va_end(arguments);
	os_clean_name(name, sizeof(name), given);
	if (sizes_possible(shrinker_size, control_size))
		r = make_registered(shrinker_size, name);
	else
		os_misuse(NULL,
			  "shrinker_alloc(%s): no version of the structures has %zu and %zu bytes; "
			  "returning NULL. Use the library of the header that the program was "
			  "built with",
			  name, shrinker_size, control_size);
	return r ? &r->shrinker : NULL;
}

/* Pools never unmap memory, so this can be read until another shrinker has the place. */
static bool was_freed(struct registered *r, const char *call)
{
	if (!os_load_relaxed(&r->gone))
		return false;
	os_misuse(
		NULL,
		"%s(%p): the shrinker was freed before; ignored. Free it once, after its last use",
		call, (void *)&r->shrinker);
	return true;
}

/* Append it to the list. False: it is on the list already. */
static bool enlist(struct registered *r)
{
	struct registered **last = &shrinkers.first;
	bool listed;

	os_lock(&shrinkers.lock);
	listed = r->listed;
	if (!listed) {
		while (*last)
			last = &(*last)->next;
		*last = r;
		r->listed = 1;
		os_store_relaxed(&shrinkers.nr, shrinkers.nr + 1);
	}
	os_unlock(&shrinkers.lock);
	return !listed;
}

SHEAF_PUBLIC void shrinker_register(struct shrinker *shrinker)
{
	struct registered *r = shrinker ? registered_of(shrinker) : NULL;

	if (!r || was_freed(r, "shrinker_register"))
		return;
	if (!os_sized_known(r, sizeof(*r), r->bytes))
		os_misuse(NULL,
			  "shrinker_register(%s): it has a member that this version does not know; "
			  "ignored. Use the library of the header that the program was built with",
			  r->name);
	else if (!shrinker->count_objects || !shrinker->scan_objects)
		os_misuse(NULL,
			  "shrinker_register(%s): %s is NULL; ignored. Set both callbacks first",
			  r->name, shrinker->count_objects ? "scan_objects" : "count_objects");
	else if (!enlist(r))
		os_misuse(NULL, "shrinker_register(%s): registered already; ignored", r->name);
}

/* With the lock held. */
static void unregister(struct registered *r)
{
	take_off(&shrinkers.first, r);
	/* Runs continue after it. */
	for (unsigned int i = 0; i < SHRINKERS_RUNS; i++)
		if (shrinkers.runs[i].at == r || shrinkers.runs[i].next == r)
			shrinkers.runs[i].next = r->next;
	os_store_relaxed(&shrinkers.nr, shrinkers.nr - 1);
	r->listed = 0;
}

/* With the lock held, except while it sleeps. */
static void wait_until_unused(struct registered *r)
{
	r->waits = os_self();
	while (is_used(r)) {
		os_unlock(&shrinkers.lock);
		os_sleep_briefly();
		os_lock(&shrinkers.lock);
	}
	r->waits = 0;
}

SHEAF_PUBLIC void shrinker_free(struct shrinker *shrinker)
{
	struct registered *r = shrinker ? registered_of(shrinker) : NULL;
	bool last;

	if (!r || was_freed(r, "shrinker_free"))
		return;
	os_lock(&shrinkers.lock);
	if (r->listed)
		unregister(r);
	os_store_relaxed(&r->gone, 1);
	r->next = shrinkers.ending;
	shrinkers.ending = r;
	/* In a callback, two threads could wait for each other. */
	if (!my_run())
		wait_until_unused(r);
	last = ends(r);
	os_unlock(&shrinkers.lock);
	if (last)
		pool_free(r, r->bytes);
}

SHEAF_PUBLIC bool shrinker_try_get(struct shrinker *shrinker)
{
	struct registered *r = shrinker ? registered_of(shrinker) : NULL;
	bool got;

	if (!r)
		return false;
	os_lock(&shrinkers.lock);
	got = r->listed;
	r->held += got;
	os_unlock(&shrinkers.lock);
	return got;
}

SHEAF_PUBLIC void shrinker_put(struct shrinker *shrinker)
{
	struct registered *r = shrinker ? registered_of(shrinker) : NULL;
	bool held, last;

	if (!r)
		return;
	os_lock(&shrinkers.lock);
	held = r->held != 0;
	r->held -= held;
	last = held && ends(r);
	os_unlock(&shrinkers.lock);
	if (!held)
		os_misuse(NULL,
			  "shrinker_put(%p): no reference is held; ignored. Call it once for each "
			  "shrinker_try_get() that returned true",
			  (void *)shrinker);
	if (last)
		pool_free(r, r->bytes);
}

void shrinkers_in_child(void)
{
	for (unsigned int i = 0; i < SHRINKERS_RUNS; i++)
		if (shrinkers.runs[i].thread != os_self())
			shrinkers.runs[i] = (struct shrinkers_run){.thread = 0};
	for (struct registered *r = shrinkers.ending, *next; r; r = next) {
		next = r->next;
		if (r->waits != os_self())
			r->waits = 0;
		if (ends(r))
			pool_free(r, r->bytes);
	}
}
