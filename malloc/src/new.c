/* SPDX-License-Identifier: MIT */
/*
 * The operators new and delete of C++, by their names in the Itanium ABI with 64-bit sizes. Those
 * of arrays, those that take std::nothrow, and the sized one of an aligned object stay the C++
 * library's: they call the ones here, or those that the program has in their place. The static
 * library has none: the C++ library's call its malloc() and free().
 *
 * Out of memory, the program's new handler is called until there is some, or it throws, or there is
 * no handler: then std::bad_alloc is thrown. All that needs is in the C++ library, which this
 * library does not link: its names are looked up at that moment. Exceptions pass through these
 * functions, which are compiled with -fexceptions.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "entry.h"
#include "os/report/report.h"

typedef void handler_fn(void);

/* What is called of the C++ library; the size and alignment of std::bad_alloc are a pointer's. */
#define CXX_NAMES(X)                                                                               \
	X(handler_fn *, get_new_handler, _ZSt15get_new_handlerv, (void))                           \
	X(void *, allocate_exception, __cxa_allocate_exception, (size_t size))                     \
	X(void, throw, __cxa_throw, (void *exception, void *type, void (*destroy)(void *)))        \
	X(void, destroy_bad_alloc, _ZNSt9bad_allocD1Ev, (void *exception))                         \
	X(void, type_of_bad_alloc, _ZTISt9bad_alloc, (void))                                       \
	X(void, calls_of_bad_alloc, _ZTVSt9bad_alloc, (void))

#define POINTER(result, field, name, arguments) result(*field) arguments;
struct cxx {
	CXX_NAMES(POINTER)
};

/* Where a plugin loaded the C++ library for itself, its names are not the program's. */
static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};

static void *find_name(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	for (size_t i = 0; !found && i < sizeof(libraries) / sizeof(*libraries); i++) {
		void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);

		if (library) {
			found = dlsym(library, name);
			dlclose(library);
		}
	}
	return found;
}

#define FIND(result, field, name, arguments)                                                       \
	*(void **)&cxx->field = find_name(#name);                                                  \
	all &= cxx->field != NULL;

static bool find_cxx(struct cxx *cxx)
{
	bool all = true;

	CXX_NAMES(FIND)
	return all;
}

/* A pointer to the calls follows two words in their table. */
static void throw_bad_alloc(const struct cxx *cxx)
{
	void ***exception = cxx->allocate_exception(sizeof(void *));

	*exception = (void **)(uintptr_t)cxx->calls_of_bad_alloc + 2;
	cxx->throw(exception, (void *)(uintptr_t)cxx->type_of_bad_alloc, cxx->destroy_bad_alloc);
}

/* Aside, these names are the program's calls. */
static OS_COLD void *by_name(size_t size, size_t align)
{
	return align <= MALLOC_LEAST ? malloc(size) : aligned_alloc(align, size);
}

static OS_COLD void *new_failed(size_t size, size_t align)
{
	struct cxx cxx;
	bool found = find_cxx(&cxx);
	handler_fn *handler;
	void *block;

	while (cxx.get_new_handler && (handler = cxx.get_new_handler()) != NULL) {
		handler();
		block = by_name(size, align);
		if (block)
			return block;
	}
	if (found)
		throw_bad_alloc(&cxx);
	os_report("operator new(%zu): no memory, and no C++ library that throws std::bad_alloc",
		  size);
	abort();
}

/* It returns to the program, as malloc_rest(). */
static OS_NOINLINE void *new_rest(size_t size, size_t align)
{
	void *block;

	if (os_unlikely(os_load_acquire(&malloc_state) == MALLOC_NEW))
		malloc_boots();
	block = os_load_acquire(&malloc_state) == MALLOC_ASIDE
			? by_name(size, align)
			: malloc_aligned(align, size, KMALLOC_CALLER);
	return os_likely(block) ? block : new_failed(size, align);
}

MALLOC_PUBLIC OS_FAST void *_Znwm(size_t size);
void *_Znwm(size_t size)
{
	void *block;

	return os_likely(kmalloc_pop(size, GFP_KERNEL, &block)) ? block
								: new_rest(size, MALLOC_LEAST);
}

MALLOC_PUBLIC void *_ZnwmSt11align_val_t(size_t size, size_t align);
void *_ZnwmSt11align_val_t(size_t size, size_t align)
{
	return new_rest(size, align);
}

/* --- delete ----------------------------------------------------------------------------------- */

static OS_NOINLINE void delete_rest(void *block)
{
	if (malloc_is_elsewhere(block))
		free(block);
	else
		malloc_free_rest(block);
}

static OS_ALWAYS_INLINE void delete_fast(void *block)
{
	if (os_unlikely(!malloc_push(block)))
		delete_rest(block);
}

#define DELETE(name, ...)                                                                          \
	MALLOC_PUBLIC OS_FAST void name(void *block, ##__VA_ARGS__);                               \
	void name(void *block, ##__VA_ARGS__)

DELETE(_ZdlPv)
{
	delete_fast(block);
}

DELETE(_ZdlPvSt11align_val_t, size_t align)
{
	(void)align;
	delete_fast(block);
}

/* The plain delete of the program: packaging/libsheaf-malloc.list lets the loader choose it.
 * Volatile: compilers take it for the one above. */
static void (*const volatile plain_delete)(void *block) = _ZdlPv;
static void own_delete(void *block) __attribute__((alias("_ZdlPv")));

/* The program has a delete of its own, a size is to be checked, or that is not yet known. */
static uint32_t sized_is_slow = 1;

static OS_COLD void delete_slow(void *block, size_t size)
{
	bool open = os_load_acquire(&malloc_state) == MALLOC_OPEN;

	if (plain_delete != own_delete) {
		plain_delete(block);
		return;
	}
	if (os_load_relaxed(&malloc_checks_sizes))
		malloc_check_size(block, size, 1, false, "operator delete");
	else if (open)
		os_store_relaxed(&sized_is_slow, 0);
	delete_fast(block);
}

DELETE(_ZdlPvm, size_t size)
{
	if (os_unlikely(os_load_relaxed(&sized_is_slow)))
		delete_slow(block, size);
	else
		delete_fast(block);
}
