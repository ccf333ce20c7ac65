/* SPDX-License-Identifier: MIT */
/* What a library built for debugging (SHEAF_DEBUG) looks at in each store, and tells in a line. */
#ifndef MAPLE_MISUSE_H
#define MAPLE_MISUSE_H

#include "tree.h"

#ifdef SHEAF_DEBUG
/* The tree's lock is this thread's; the caller's own, if it is known, is somebody's. */
void check_locked(const struct maple_tree *mt, const char *call);
/* mas_store_prealloc() had so many nodes in hand, and asked for mas->node_request if these were few. */
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
