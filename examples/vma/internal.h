/* SPDX-License-Identifier: MIT */
/*
 * What the files of the address space share.
 *
 *     pool.c     VMAs: allocated, freed         change.c   protection, heap
 *     space.c    map, unmap, look               copy.c     fork, exec, destroy
 */
#ifndef VMA_INTERNAL_H
#define VMA_INTERNAL_H

#include "space.h"

/* --- pool.c ---------------------------------------------------------------------------------- */

struct vma *vma_alloc(void);
/* All of n or none. */
int vma_alloc_bulk(unsigned int n, void **vmas);
/* One that no reader has seen; one that readers may be at. */
void vma_free(struct vma *vma);
void vma_free_bulk(unsigned int n, void **vmas);
void vma_retire(struct vma *vma);

/* A new VMA with the part start ... end of an old one, or NULL. */
struct vma *vma_copy_part(const struct vma *vma, unsigned long start, unsigned long end);

/* --- space.c --------------------------------------------------------------------------------- */

/*
 * Let start ... end hold `piece` (NULL: nothing), which has these bounds. What VMAs have outside of it
 * stays as new ones. All or nothing: 0 or -ENOMEM, and then the piece is still the caller's.
 */
int space_put(struct space *space, unsigned long start, unsigned long end, struct vma *piece);

/* The same, and the piece takes in neighbours of its kind first. It is freed if that fails. */
int space_put_merged(struct space *space, struct vma *piece);

/* Put another VMA in the place of one with its bounds. Takes no memory. */
void space_exchange(struct space *space, struct vma *vma);

/* Whether the VMA, which holds a neighbour of the address `at`, goes on there as the piece does. */
bool vma_is_alike(const struct vma *vma, const struct vma *piece, unsigned long at);

/* Whether the range is not empty, lies within the space and is of whole pages. */
bool space_has_range(const struct space *space, unsigned long start, unsigned long length);

#endif
