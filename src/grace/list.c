/* SPDX-License-Identifier: MIT */
/* Lists of waiting objects; see list.h. */
#include "grace/list.h"

static void push(struct grace_list *list, struct grace_link *link)
{
	link->next = os_load_relaxed(&list->first);
	while (!os_cmpxchg(&list->first, &link->next, link))
		;
}

void grace_list_add(struct grace_list *list, struct grace_link *link)
{
	link->number = grace_now(list->user.grace);
	push(list, link);
	/* A thread that starts no batch, because one is in flight, relies on a callback that sees
	 * this. */
	grace_activate(&list->user);
}

static void flush_retired(struct grace_user *user, bool all)
{
	struct grace_list *list = (struct grace_list *)user;
	struct grace_link *link = os_exchange(&list->first, NULL), *next;
	uint64_t done = grace_done(user->grace);

	(void)all;
	for (; link; link = next) {
		next = link->next;
		if (link->number <= done)
			list->free(list, link);
		else
			push(list, link);
	}
}

static bool list_waits(struct grace_user *user)
{
	return os_load_relaxed(&((struct grace_list *)user)->first) != NULL;
}

static const struct grace_user_ops list_ops = {NULL, NULL, flush_retired, list_waits};

bool grace_list_init(struct grace_list *list, struct grace *grace,
		     void (*free)(struct grace_list *list, struct grace_link *link))
{
	list->free = free;
	return grace_add_user(grace, &list->user, &list_ops);
}
