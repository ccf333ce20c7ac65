/* SPDX-License-Identifier: MIT */
/*
 * Another allocator in the program: one that it defines itself or links, or a sanitizer's. Its
 * malloc() comes before ours, and so ours is called only by what it does not define (aligned_alloc,
 * operator new, ...). Blocks of two allocators would mix. So this library steps aside: each call
 * goes where it would go without this library, to the next definition of its name, and operators
 * call the program's malloc() and free().
 *
 * To see which malloc() the program has, it is called. Its address does not tell: of a program at a
 * fixed address, that of any function may be in the program itself; and a program's malloc() may
 * only count, and pass the call on to ours.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "boot.h"
#include "entry.h"
#include "os/report/report.h"
#include <sheaf/debug.h>

#pragma weak dlsym

/* gcc's and clang's shared libraries of sanitizers have it. */
extern void *__interceptor_malloc(size_t size) __attribute__((weak));

struct malloc_calls malloc_next;

/* Not plain: compilers know that malloc() calls nothing of this file. */
static uint32_t came_here;

void malloc_came_here(void)
{
	os_store_relaxed(&came_here, 1);
}

/* In a static program, names have one meaning. */
bool malloc_is_foreign(void)
{
	void *block;
	bool ours;

	if (__interceptor_malloc)
		return true;
	os_store_relaxed(&came_here, 0);
	/* packaging/libsheaf-malloc.list lets the loader choose these two. */
	block = malloc(MALLOC_LEAST);
	/* If kmalloc() was used before, the block comes from its sheaf without a call of this. */
	ours = os_load_relaxed(&came_here) || sheaf_owns(block);
	free(block);
	return block && !ours;
}

static bool find(void *to, const char *name)
{
	void *found = dlsym ? dlsym(RTLD_NEXT, name) : NULL;

	*(void **)to = found;
	return found;
}

bool malloc_step_aside(void)
{
	bool found = find(&malloc_next.malloc, "malloc") && find(&malloc_next.free, "free") &&
		     find(&malloc_next.calloc, "calloc") && find(&malloc_next.realloc, "realloc") &&
		     find(&malloc_next.memalign, "memalign") &&
		     find(&malloc_next.malloc_usable_size, "malloc_usable_size");

	os_options_need();
	if (!found)
		os_report("the program has its own malloc(), but the C library none: blocks of "
			  "both are mixed. Do not preload libsheaf-malloc.so");
	else if (os_options.verbose)
		os_report("the program has its own malloc(): libsheaf-malloc steps aside");
	return found;
}
