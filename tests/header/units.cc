/* SPDX-License-Identifier: MIT */
#include "units.h"

int main()
{
	kmem_cache *s = kmem_cache_create("units", sizeof(long), nullptr, 0);

	for (int i = 0; i < 100; i++) {
		put(s, typed<long>::get(s));
		use_elsewhere(s);
	}
	return kmem_cache_verify(s);
}
