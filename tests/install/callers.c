/* SPDX-License-Identifier: MIT */
/* Reports whose stacks must begin with the functions of this program that made the calls. */
#include <sheaf/debug.h>
#include <sheaf/kmalloc.h>
#include <stdlib.h>

#define PLACE(name, call)                                                                          \
	void name(void);                                                                           \
	__attribute__((noinline)) void name(void)                                                  \
	{                                                                                          \
		call;                                                                              \
		__asm__ volatile("");                                                              \
	}

static struct kmem_cache *s;
static int not_an_object;
static void *object, *block;

PLACE(place_of_kfree, kfree(&not_an_object))
PLACE(place_of_kvfree, kvfree(&not_an_object))
PLACE(place_of_free, kmem_cache_free(s, &not_an_object))
PLACE(place_of_alloc, object = kmem_cache_alloc(s, GFP_KERNEL))
PLACE(place_of_kzalloc, block = kzalloc(100, GFP_KERNEL))

int main(void)
{
	s = kmem_cache_create("traced", 64, NULL, SLAB_STORE_USER);
	place_of_kfree();
	place_of_kvfree();
	place_of_free();
	place_of_alloc();
	place_of_kzalloc();
	return kmem_cache_print_traces(NULL, 1, SHEAF_ALLOC_TRACES, SHEAF_STATS_TEXT);
}
