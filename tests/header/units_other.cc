/* SPDX-License-Identifier: MIT */
#include "units.h"

void use_elsewhere(kmem_cache *s)
{
	put(s, typed<long>::get(s));
}
