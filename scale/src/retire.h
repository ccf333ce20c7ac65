/* SPDX-License-Identifier: MIT */
/*
 * How the kernel freed what is retired before it had sheaves: each CPU collects pointers in a page;
 * once its grace period is over, a full page is freed at once. Two caches at most.
 * Callers: scale/src/.
 */
#ifndef SHEAF_SCALE_RETIRE_H
#define SHEAF_SCALE_RETIRE_H

/* free_objects: frees n of the cache's objects. */
void retire(void *cache, void *object,
	    void (*free_objects)(void *cache, void **objects, unsigned int n));

#endif
