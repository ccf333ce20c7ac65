/* SPDX-License-Identifier: MIT */
/* Sections in functions that two objects have, of which the linker discards one. */
#define SHEAF_INLINE
#include <sheaf/slab.h>

template <class T> struct typed {
	static T *get(kmem_cache *s)
	{
		return static_cast<T *>(kmem_cache_alloc(s, GFP_KERNEL));
	}
};

inline void put(kmem_cache *s, void *object)
{
	kmem_cache_free(s, object);
}

void use_elsewhere(kmem_cache *s);
