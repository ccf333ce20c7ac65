/* SPDX-License-Identifier: MIT */
/*
 * Functions that the files of the address space share.
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
/* Free a VMA that no reader has seen; free one that readers may be using. */
void vma_free(struct vma *vma);
void vma_free_bulk(unsigned int n, void **vmas);
void vma_retire(struct vma *vma);

/* A new VMA with the part start ... end of an old one, or NULL. */
struct vma *vma_copy_part(const struct vma *vma, unsigned long start, unsigned long end);

/* --- space.c --------------------------------------------------------------------------------- */

/*
 * Let start ... end hold `piece` (NULL: nothing), which has these bounds. The parts of old VMAs
 * outside these bounds become new VMAs. All or nothing: returns 0, or -ENOMEM, and then the caller
 * still owns the piece.
 */
int space_put(struct space *space, unsigned long start, unsigned long end, struct vma *piece);

/* Like space_put(), but first extend the piece by neighbours of its kind. If that fails, free the
 * piece. */
int space_put_merged(struct space *space, struct vma *piece);

/* Replace a VMA by another one with the same bounds. Takes no memory. */
void space_exchange(struct space *space, struct vma *vma);

/* Return whether the VMA next to the address `at` has the same kind as the piece and continues it
 * there. */
bool vma_is_alike(const struct vma *vma, const struct vma *piece, unsigned long at);

/* Return whether the range is not empty, lies within the space and consists of whole pages. */
bool space_has_range(const struct space *space, unsigned long start, unsigned long length);

#endif
