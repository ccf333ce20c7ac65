/* SPDX-License-Identifier: MIT */
/* Misuse that a debug build reports; see misuse.h. */
#include "misuse.h"

#ifdef SHEAF_DEBUG

#include <errno.h>
#include <pthread.h>

/* Some thread holds it: if trylock succeeds, no thread does. */
static bool is_held(pthread_mutex_t *lock)
{
	if (pthread_mutex_trylock(lock) == EBUSY)
		return true;
	pthread_mutex_unlock(lock);
	return false;
}

void check_locked(const struct maple_tree *mt, const char *call)
{
	if (mt_external_lock(mt)) {
		if (mt->ma_external_lock && !is_held(mt->ma_external_lock))
			say("libsheaf: %s on maple tree %p without the lock %p that "
			    "mt_set_external_lock() named; take it first",
			    call, (const void *)mt, mt->ma_external_lock);
		return;
	}
	if (mt->ma_owner == (uintptr_t)pthread_self())
		return;
	say("libsheaf: %s on maple tree %p without its lock; call mtree_lock() first, or "
	    "create the tree with MT_FLAGS_LOCK_EXTERN",
	    call, (const void *)mt);
}

void check_prepared(const struct ma_state *mas, unsigned int had)
{
	if (mas->node_request > had)
		say("libsheaf: mas_store_prealloc(%lu ... %lu) on maple tree %p needs %lu "
		    "nodes but has %u; call mas_preallocate() for this range and entry, and "
		    "hold the lock until the store",
		    mas->index, mas->last, (void *)mas->tree, mas->node_request, had);
}

#endif
