/* SPDX-License-Identifier: MIT */
/* The structures of all providers: finding and creating them, and fork(); see grace.h. */
#include "grace/grace.h"
#include "os/machine.h"
#include "os/sized.h"
#include "page/pool.h"

static struct grace *graces; /* grows only */
static struct grace *of_process;

static struct grace *find(const struct sheaf_rcu_ops *ops)
{
	struct grace *grace = os_load_acquire(&graces);

	while (grace && grace->given != ops)
		grace = grace->next;
	return grace;
}

#define SIZE_MOST 4096 /* a larger value is not a size, but bytes that were on the stack */

const char *provider_read(struct sheaf_rcu_ops *ours, const struct sheaf_rcu_ops *given)
{
	if (!given)
		return "there is no provider (NULL)";
	if (given->size < sizeof(given->size) || given->size > SIZE_MOST ||
	    !os_sized_whole(given->size))
		return "the provider's size is wrong; set it to sizeof(struct sheaf_rcu_ops)";
	if (!os_sized_copy(ours, sizeof(*ours), given, given->size))
		return "the provider has calls that this version does not know; use the library of "
		       "the header that the program was built with";
	if (!ours->call || !ours->barrier || !ours->name || !ours->poll != !ours->start_poll)
		return "a provider needs a name, call() and barrier(), and both of start_poll() "
		       "and poll() or none";
	return NULL;
}

static size_t size_of_parts(void)
{
	return os.nr_cpus * sizeof(struct grace_part);
}

static bool make_batches(struct grace *grace)
{
	struct grace_batch *batches = pool_alloc(GRACE_BATCHES * sizeof(*batches));

	for (int i = 0; batches && i < GRACE_BATCHES; i++)
		batches[i].grace = grace;
	if (batches)
		grace->batches = batches;
	return batches;
}

static void unmake(struct grace *grace)
{
	pool_free(grace->batches, GRACE_BATCHES * sizeof(*grace->batches));
	pool_free(grace->parts, size_of_parts());
	pool_free(grace, sizeof(*grace));
}

static struct grace *make(const struct sheaf_rcu_ops *ops)
{
	struct grace *grace = pool_alloc(sizeof(*grace)), *first = os_load_acquire(&graces);

	if (!grace)
		return NULL;
	grace->given = ops;
	os_lock_init(&grace->lock, OS_RANK_GRACE);
	grace->parts = pool_alloc(size_of_parts());
	if (!grace->parts || provider_read(&grace->ops, ops) || !make_batches(grace)) {
		unmake(grace);
		return NULL;
	}
	do {
		struct grace *other = find(ops);

		if (other) {
			unmake(grace);
			return other;
		}
		grace->next = first;
	} while (!os_cmpxchg(&graces, &first, grace));
	return grace;
}

struct grace *grace_of(const struct sheaf_rcu_ops *ops)
{
	struct grace *grace;

	if (!ops)
		return os_load_acquire(&of_process);
	grace = find(ops);
	return grace ? grace : make(ops);
}

bool grace_register(const struct sheaf_rcu_ops *ops)
{
	struct grace *grace = grace_of(ops), *none = NULL;

	return grace && (os_cmpxchg(&of_process, &none, grace) || none == grace);
}

uint64_t grace_bytes(void)
{
	uint64_t bytes = 0;

	for (struct grace *grace = os_load_acquire(&graces); grace; grace = grace->next)
		bytes += grace_sum(grace);
	return bytes;
}

uint64_t grace_all_done(void)
{
	uint64_t done = 0;

	for (struct grace *grace = os_load_acquire(&graces); grace; grace = grace->next)
		done += grace_done(grace);
	return done;
}

void grace_for_each(void (*each)(struct grace *grace))
{
	for (struct grace *grace = os_load_acquire(&graces); grace; grace = grace->next)
		each(grace);
}

void grace_for_each_user(void (*visit)(struct grace_user *user, void *data), void *data)
{
	for (struct grace *grace = os_load_acquire(&graces); grace; grace = grace->next)
		grace_for_each_active(grace, visit, data);
}

void grace_act_on_locks(os_fork_act *act)
{
	for (struct grace *grace = os_load_acquire(&graces); grace; grace = grace->next)
		act(&grace->lock, &grace->locked_by_fork);
}

/* The old ones are leaked: the provider still has some of them, and may return them. */
static void renew(struct grace *grace)
{
	bool busy = false;

	for (int i = 0; i < GRACE_BATCHES; i++)
		busy |= grace->batches[i].busy;
	if (busy)
		make_batches(grace);
	grace->poll_taken = 0;
	/* The next object starts a batch immediately. */
	grace->started_at = 0;
}

void grace_after_fork(void)
{
	grace_for_each(renew);
}
