/* SPDX-License-Identifier: MIT */
/* Asks the malloc of the program, which may be preloaded, to return all of its free memory. */
#ifndef BENCH_MALLOC_TRIM_H
#define BENCH_MALLOC_TRIM_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

/* With the call of the loaded library; the C library's is always there, too. */
static inline void malloc_return_all(void)
{
	void (*collect)(bool) = (void (*)(bool))dlsym(RTLD_DEFAULT, "mi_collect");
	void (*release)(void) =
		(void (*)(void))dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory");
	int (*control)(const char *, void *, size_t *, void *, size_t) =
		(int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT,
									       "mallctl");
	int (*trim)(size_t) = (int (*)(size_t))dlsym(RTLD_DEFAULT, "malloc_trim");

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

#endif
