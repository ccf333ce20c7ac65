/* SPDX-License-Identifier: MIT */
/* The tree of groups: places, numbers and references; see group.h. For all groups: all.c. */
#include "group/group.h"

#include "group/stock.h"
#include "os/assert.h"
#include "os/machine.h"
#include "os/report/report.h"
#include "page/pool.h"

#define REAP_AT 64 /* groups that are over before their places are looked for */

struct kmem_group *group_chunks[GROUP_CHUNKS] OS_LARGE;
struct groups groups = {
	.lock = OS_LOCK_INIT(OS_RANK_GROUPS),
	.root = {.hard = GROUP_NO_LIMIT, .high = GROUP_NO_LIMIT, .refs = 1, .name = "root"},
	.nr_places = 1,
	.reap_at = REAP_AT,
	.last_free = &groups.free,
};

/* --- references ------------------------------------------------------------------------------- */

bool group_get(struct kmem_group *g)
{
	uint32_t refs = os_load_relaxed(&g->refs);

	while (refs)
		if (os_cmpxchg(&g->refs, &refs, refs + 1))
			return true;
	return false;
}

bool group_check(struct kmem_group *g, const char *call)
{
	if (os_load_relaxed(&g->refs))
		return true;
	os_misuse(NULL,
		  "%s(%p): this group has no references: it was put too often; ignored. Call "
		  "kmem_group_put() once for each reference",
		  call, (void *)g);
	return false;
}

static void unlink_group(struct kmem_group *g)
{
	if (g->prev)
		g->prev->next = g->next;
	else
		groups.first = g->next;
	if (g->next)
		g->next->prev = g->prev;
}

void group_end(struct kmem_group *g)
{
	static const struct kmem_group_args none;

	os_assert(!os_peek(&g->refs) && !g->over);	 /* GROUP-G2 */
	os_assert(!g->parent->over);			 /* GROUP-G2 */
	os_assert(!g->caller || g->caller == os_self()); /* GROUP-G5 */
	os_assert(!g->gone.end);			 /* GROUP-G6 */
	group_set_gone(g, (struct group_gone){g->args.end, g->args.data});
	group_apply(g, &none);
	os_store_release(&g->over, 1);
	unlink_group(g);
	os_store_relaxed(&groups.nr, groups.nr - 1);
	g->next = groups.over;
	groups.over = g;
	groups.nr_over++;
	if (g->gone.end)
		group_queue(g, 0);
}

void group_put(struct kmem_group *g)
{
	while (g && g != &groups.root && os_fetch_sub(&g->refs, 1) == 1) {
		struct kmem_group *parent = g->parent;

		os_lock(&groups.lock);
		group_end(g);
		os_unlock(&groups.lock);
		g = parent;
	}
}

/* Its `end` is yet to be called, or only a callback keeps it. event.c sets `caller` before it takes
 * `gone`. */
static bool is_ending(struct kmem_group *g)
{
	return (os_load_acquire(&g->gone.end) || os_load_acquire(&g->caller)) &&
	       os_load_acquire(&g->refs) <= 1;
}

void group_put_and_wait(struct kmem_group *g)
{
	uint64_t id = g->id;

	group_end_left(g, (uintptr_t)__builtin_frame_address(0));
	group_put(g);
	group_leave();
	while (!os_in_program() && os_load_relaxed(&g->id) == id && is_ending(g)) {
		os_sleep_briefly();
		group_leave();
	}
}

SHEAF_PUBLIC struct kmem_group *kmem_group_get(struct kmem_group *g)
{
	return !g || (group_check(g, "kmem_group_get") && group_get(g)) ? g : NULL;
}

SHEAF_PUBLIC void kmem_group_put(struct kmem_group *g)
{
	if (g && group_check(g, "kmem_group_put"))
		group_put_and_wait(g);
	os_report_kept();
}

struct kmem_group *group_living(struct kmem_group *g)
{
	while (g && g->parent) {
		if (group_get(g))
			return g;
		g = g->parent;
	}
	return NULL;
}

/* --- places ----------------------------------------------------------------------------------- */

/* The places of groups that are over and have nothing left (GROUP-G3). A parent comes after its
 * last child, whose place must be free first; the next call finds it, too. */
static void reap(void)
{
	struct kmem_group **link = &groups.over;

	while (*link) {
		struct kmem_group *g = *link;

		if (os_load_acquire(&g->usage) || g->children || g->caller || g->gone.end) {
			link = &g->next;
			continue;
		}
		*link = g->next;
		g->next = NULL;
		if (g->parent)
			os_store_relaxed(&g->parent->children, g->parent->children - 1);
		*groups.last_free = g;
		groups.last_free = &g->next;
		groups.nr_over--;
	}
	groups.reap_at = 2 * groups.nr_over > REAP_AT ? 2 * groups.nr_over : REAP_AT;
}

static struct kmem_group *fresh_place(void)
{
	uint32_t place = groups.nr_places, chunk = place >> GROUP_CHUNK_BITS;
	struct kmem_group *g;

	if (place == 1u << GROUP_PLACE_BITS)
		return NULL;
	if (!group_chunks[chunk]) {
		struct kmem_group *made = pool_alloc(GROUP_CHUNK * sizeof(*made));

		if (!made)
			return NULL;
		os_store_release(&group_chunks[chunk], made);
	}
	os_store_release(&groups.nr_places, place + 1);
	g = &group_chunks[chunk][place % GROUP_CHUNK];
	g->number = group_number(place);
	return g;
}

/* Numbers are used again as late as possible, so that a handle of an old group is recognised. */
static struct kmem_group *used_place(void)
{
	struct kmem_group *g = groups.free;

	os_assert(g->over && !os_peek(&g->usage) && !g->children); /* GROUP-G3 */
	os_assert(!g->caller && !g->gone.end);			   /* GROUP-G6 */
	groups.free = g->next;
	if (!groups.free)
		groups.last_free = &groups.free;
	/* Positive: slab/owner.h. */
	g->number = (g->number + (1u << GROUP_PLACE_BITS)) & INT32_MAX;
	return g;
}

static struct kmem_group *take_group_place(void)
{
	struct kmem_group *g = NULL;

	if (groups.nr_over >= groups.reap_at)
		reap();
	if (!groups.free || groups.nr_places % GROUP_CHUNK)
		g = fresh_place();
	return !g && groups.free ? used_place() : g;
}

static void begin_tree(struct kmem_group *g, const char *name, struct kmem_group *parent,
		       const struct kmem_group_args *args)
{
	os_assert(os_peek(&groups.lock.word));		    /* GROUP-G4 */
	os_assert(os_peek(&parent->refs) && !parent->over); /* GROUP-G2 */
	os_assert(!os_peek(&g->usage) && !g->children);	    /* GROUP-G3 */
	g->peak = g->failed = g->reclaims = g->forced = 0;
	g->high_events = g->low_events = 0;
	/* It may still be queued, for events of the group before. */
	os_fetch_and(&g->events, GROUP_QUEUED);
	os_store_relaxed(&g->parent, parent);
	g->threads = g->above = g->over = 0;
	os_store_relaxed(&g->id, ++groups.nr_made);
	os_clean_name(g->name, sizeof(g->name), name);
	group_apply(g, args);
	/* stock_bytes() reads it without the lock. */
	os_store_relaxed(&parent->children, parent->children + 1);
	g->prev = NULL;
	g->next = groups.first;
	if (g->next)
		g->next->prev = g;
	groups.first = g;
	os_store_relaxed(&groups.nr, groups.nr + 1);
	os_store_release(&g->refs, 1);
}

struct kmem_group *group_create(const char *name, struct kmem_group *parent,
				const struct kmem_group_args *args)
{
	struct kmem_group *g;

	if (parent && !group_get(parent))
		return NULL;
	os_lock(&groups.lock);
	g = take_group_place();
	if (g)
		begin_tree(g, name, parent ? parent : &groups.root, args);
	os_unlock(&groups.lock);
	if (!g)
		group_put(parent);
	return g;
}
