/* SPDX-License-Identifier: MIT */
/* Checks that a debug build of the library (SHEAF_DEBUG) makes in each store, and reports in one
 * line. */
#ifndef MAPLE_MISUSE_H
#define MAPLE_MISUSE_H

#include "tree.h"

#ifdef SHEAF_DEBUG
/* Check that this thread holds the tree's lock, or that some thread holds the caller's own lock, if
 * that is known. */
void check_locked(const struct maple_tree *mt, const char *call);
/* mas_store_prealloc() had this many preallocated nodes; mas->node_request is set if these were too
 * few. */
void check_prepared(const struct ma_state *mas, unsigned int had);
#else
static inline void check_locked(const struct maple_tree *mt, const char *call)
{
	(void)mt;
	(void)call;
}

static inline void check_prepared(const struct ma_state *mas, unsigned int had)
{
	(void)mas;
	(void)had;
}
#endif

#endif
