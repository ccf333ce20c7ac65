/* SPDX-License-Identifier: MIT */
/* A program that uses a cache once: see start.c. */
#include <sheaf/slab.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	struct kmem_cache *s;
	void *object;

	syscall(SYS_getppid); /* start.c: main() begins */
	s = kmem_cache_create("first", 64, NULL, 0);
	object = s ? kmem_cache_alloc(s, GFP_KERNEL) : NULL;
	if (object)
		kmem_cache_free(s, object);
	return !object;
}
