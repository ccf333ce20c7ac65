/* SPDX-License-Identifier: MIT */
/* Checks the slabs of a quiet cache: bits, counts, flags and lists agree (SLAB-B1 to SLAB-B5,
 * SLAB-B9); and its marks. */
#ifndef SHEAF_SIM_KIT_QUIET_H
#define SHEAF_SIM_KIT_QUIET_H

struct sheaf_cache;
struct slab_cache;

/* No fibre uses the cache, and nothing is deferred. Returns how many objects are not free in their
 * slabs. */
unsigned int quiet_slabs(const struct slab_cache *cache);
/* Is the mark of each place set that has something (src/slab/drain_marks.h)? */
void quiet_marks(struct sheaf_cache *cache);

#endif
