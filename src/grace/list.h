/* SPDX-License-Identifier: MIT */
/*
 * Objects that wait for a grace period, linked through two words of their own memory: a list
 * without a lock.
 *
 * Any thread adds with a compare-exchange. A callback or barrier takes the whole list with an
 * exchange, frees what has passed, and adds the rest again, so there is no ABA. Users are called
 * one at a time (GRACE-G5), and so is free().
 *
 * Callers: src/slab/rcu_free_slab.c, src/rcu/any.c.
 */
#ifndef SHEAF_GRACE_LIST_H
#define SHEAF_GRACE_LIST_H

#include "grace/grace.h"

#define GRACE_TAG_BITS 12

struct grace_link {
	struct grace_link *next;
	uint64_t number; /* above GRACE_TAG_BITS for the caller's tag */
};

struct grace_list {
	struct grace_user user; /* first */
	struct grace_link *first;
	void (*free)(struct grace_list *list, struct grace_link *link);
};

/* Returns false if there is no memory. */
bool grace_list_init(struct grace_list *list, struct grace *grace,
		     void (*free)(struct grace_list *list, struct grace_link *link));
/* Free this after a grace period. The caller starts a batch. */
void grace_list_add(struct grace_list *list, struct grace_link *link, size_t tag);

static inline size_t grace_link_tag(const struct grace_link *link)
{
	return link->number & ((1u << GRACE_TAG_BITS) - 1);
}

#endif
