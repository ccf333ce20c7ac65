/* SPDX-License-Identifier: MIT */
/* Included before the files of the maple tree and the address space: their caches have no sheaves.
 */
#ifndef BENCH_VMA_NO_SHEAVES_H
#define BENCH_VMA_NO_SHEAVES_H

#include <sheaf/slab.h>

#undef kmem_cache_create
#define kmem_cache_create(name, size, args, flags)                                                 \
	__kmem_cache_create_args(name, size, args, sizeof(struct kmem_cache_args),                 \
				 (flags) | SLAB_NO_SHEAVES)

#endif
