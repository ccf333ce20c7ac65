/* SPDX-License-Identifier: MIT */
/*
 * Slabs that wait for a grace period, linked through two words of their tables: a list without a
 * lock.
 *
 * Any thread adds with a compare-exchange. A callback or barrier takes the whole list with an
 * exchange, frees what has passed, and adds the rest again, so there is no ABA. Users are called
 * one at a time (GRACE-G5), and so is free().
 *
 * Callers: src/slab/rcu_free_slab.c.
 */
#ifndef SHEAF_GRACE_LIST_H
#define SHEAF_GRACE_LIST_H

#include "grace/grace.h"

struct grace_link {
	struct grace_link *next;
	uint64_t number;
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
void grace_list_add(struct grace_list *list, struct grace_link *link);

#endif
