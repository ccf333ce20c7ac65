/* SPDX-License-Identifier: MIT */
/*
 * How the kernel freed retired objects before it had sheaves: each CPU collects pointers in a page,
 * and a full page is freed in one call once its grace period is over. Two caches at most. Callers:
 * scale/src/.
 */
#ifndef SHEAF_SCALE_RETIRE_H
#define SHEAF_SCALE_RETIRE_H

/* free_objects: frees n of the cache's objects. */
void retire(void *cache, void *object,
	    void (*free_objects)(void *cache, void **objects, unsigned int n));

#endif
