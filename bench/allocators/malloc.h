/* SPDX-License-Identifier: MIT */
/* malloc and free of the C library or of a preloaded library. */
#include <dlfcn.h>
#include <stdlib.h>

#define BENCH_CALL malloc

static inline void *bench_open(const struct bench_setup *setup)
{
	return (void *)setup->size;
}

static inline void bench_thread_begin(unsigned int index)
{
	(void)index;
}

static inline void *bench_alloc(void *context)
{
	return malloc((size_t)context);
}

static inline void bench_free(void *context, void *object)
{
	(void)context;
	free(object);
}

static inline bool bench_alloc_bulk(void *context, void **objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		objects[i] = malloc((size_t)context);
		if (!objects[i])
			return false;
	}
	return true;
}

static inline void bench_free_bulk(void *context, void **objects, unsigned int n)
{
	(void)context;
	for (unsigned int i = 0; i < n; i++)
		free(objects[i]);
}

/* With the call of the loaded library; the C library's is always there, too. */
static inline void bench_trim(void *context)
{
	void (*collect)(bool) = (void (*)(bool))dlsym(RTLD_DEFAULT, "mi_collect");
	void (*release)(void) =
		(void (*)(void))dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory");
	int (*control)(const char *, void *, size_t *, void *, size_t) =
		(int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT,
									       "mallctl");
	int (*trim)(size_t) = (int (*)(size_t))dlsym(RTLD_DEFAULT, "malloc_trim");

	(void)context;
	if (control) {
		control("thread.tcache.flush", NULL, NULL, NULL, 0);
		control("arena.4096.purge", NULL, NULL, NULL, 0); /* 4096: all arenas */
	} else if (collect) {
		collect(true);
	} else if (release) {
		release();
	} else if (trim) {
		trim(0);
	}
}

static inline bool bench_make_countable(void)
{
	return true;
}
