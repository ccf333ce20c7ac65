/* SPDX-License-Identifier: MIT */
/*
 * Shared objects that are loaded later. Usage: plugins LINKED_WITH_LIBSHEAF PLAIN NAME
 *
 * One that is linked with libsheaf.so uses the libsheaf in the preloaded library, so blocks are of
 * one allocator. With RTLD_DEEPBIND, free() stays ours, and the run path of the caller counts: NAME
 * is found by that of PLAIN. In another namespace there is another C library, whose blocks stay
 * there. Threads load and unload while others allocate.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "check.h"

typedef void *alloc_fn(size_t size);
typedef void free_fn(void *block);
typedef void *open_fn(const char *name);
typedef int same_fn(void *block);
typedef size_t budget_fn(void);

static const char *plain;

static void *open_object(const char *path, int flags)
{
	void *object = dlopen(path, flags);

	if (!object) {
		dprintf(STDERR_FILENO, "%s\n", dlerror());
		_exit(1);
	}
	return object;
}

static void one_instance(const char *path)
{
	void *object = open_object(path, RTLD_NOW | RTLD_LOCAL);
	same_fn *uses_same = (same_fn *)symbol_of(object, "plugin_uses_same");

	CHECK(uses_same(malloc(HIDDEN((size_t)100))));
	CHECK(uses_same(malloc(HIDDEN((size_t)3 << 20))));
	/* 2 MiB, and 3 for each CPU. */
	CHECK(((budget_fn *)symbol_of(object, "plugin_sheaf_budget"))() >= (size_t)5 << 20);
}

static void deep(const char *name)
{
	void *object = open_object(plain, RTLD_NOW | RTLD_DEEPBIND), *other;
	void *block = ((alloc_fn *)symbol_of(object, "plugin_alloc"))(1000);

	CHECK(is_ours(block));
	free(block);
	((free_fn *)symbol_of(object, "plugin_free"))(malloc(HIDDEN((size_t)1000)));
	other = ((open_fn *)symbol_of(object, "plugin_open"))(name);
	CHECK(other);
	block = ((alloc_fn *)symbol_of(other, "plugin_alloc"))(1000);
	CHECK(is_ours(block));
	free(block);
	CHECK(!dlopen("no-such-object.so", RTLD_NOW) && dlerror());
}

static void other_namespace(void)
{
	void *object = dlmopen(LM_ID_NEWLM, plain, RTLD_NOW), *block;

	CHECK(object);
	block = ((alloc_fn *)symbol_of(object, "plugin_alloc"))(1000);
	CHECK(block && !is_ours(block));
	((free_fn *)symbol_of(object, "plugin_free"))(block);
}

static void *loads(void *unused)
{
	for (int i = 0; i < 100; i++) {
		void *object = open_object(plain, RTLD_NOW | RTLD_LOCAL);

		((free_fn *)symbol_of(object, "plugin_free"))(malloc(HIDDEN((size_t)100)));
		churn((unsigned int)i, 100);
		dlclose(object);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[4];

	CHECK(argc == 4);
	plain = argv[2];
	check_ours();
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, loads, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	one_instance(argv[1]);
	deep(argv[3]);
	other_namespace();
	return 0;
}
