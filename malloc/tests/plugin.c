/* SPDX-License-Identifier: MIT */
/* A shared object for plugins.c and exits.c: it is linked with libsheaf.so if PLUGIN_SHEAF. It
 * allocates when it is loaded, and frees that when it is unloaded. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#ifdef PLUGIN_SHEAF
#include <sheaf/debug.h>
#include <sheaf/kmalloc.h>
#include <sheaf/stats.h>

int plugin_uses_same(void *block);
int plugin_uses_same(void *block)
{
	void *own = kmalloc(100, GFP_KERNEL);
	int same = sheaf_owns(block) && own;

	free(own);
	kfree(block);
	return same;
}

size_t plugin_sheaf_budget(void);
size_t plugin_sheaf_budget(void)
{
	struct sheaf_stats stats;

	sheaf_stats(&stats);
	return stats.sheaf_budget;
}
#endif

static void *of_object[10];

static __attribute__((constructor)) void loaded(void)
{
	for (size_t i = 0; i < 10; i++)
		of_object[i] = memset(malloc(100 << i), 1, 100 << i);
}

static __attribute__((destructor)) void unloaded(void)
{
	for (size_t i = 0; i < 10; i++) {
		void *more = realloc(of_object[i], 50 << i);

		free(more);
	}
}

void *plugin_alloc(size_t size);
void plugin_free(void *block);
void *plugin_open(const char *name);

void *plugin_alloc(size_t size)
{
	void *block = malloc(size);

	return block ? memset(block, 1, size) : NULL;
}

void plugin_free(void *block)
{
	free(block);
}

/* By the run path of this object: the call must return here. */
void *plugin_open(const char *name)
{
	void *object = dlopen(name, RTLD_NOW | RTLD_DEEPBIND);

	__asm__("" : "+r"(object));
	return object;
}
