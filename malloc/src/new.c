/* SPDX-License-Identifier: MIT */
/*
 * The operators new and delete of C++, by their names in the Itanium ABI with 64-bit sizes. Those
 * that take std::nothrow stay the C++ library's: they call the ones here, and return NULL in place
 * of an exception, which C could not catch.
 *
 * Out of memory, the program's new handler is called until there is some, or it throws, or there is
 * no handler: then std::bad_alloc is thrown. All that needs is in the C++ library, which this
 * library does not link: its names are looked up at that moment. In the static library
 * (MALLOC_STATIC) this file is an object of its own, which only a program with these operators
 * links, together with the C++ library; the operators call malloc() and free() there. Exceptions
 * pass through these functions, which are compiled with -fexceptions.
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

#ifdef MALLOC_STATIC
#define DECLARE(result, field, name, arguments) extern char name[];
CXX_NAMES(DECLARE)
#define ADDRESS(result, field, name, arguments) .field = (__typeof__(cxx.field))(uintptr_t)name,

static bool find_cxx(struct cxx *found)
{
	struct cxx cxx = {CXX_NAMES(ADDRESS)};

	*found = cxx;
	return true;
}
#else
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
#endif

/* A pointer to the calls follows two words in their table. */
static void throw_bad_alloc(const struct cxx *cxx)
{
	void ***exception = cxx->allocate_exception(sizeof(void *));

	*exception = (void **)(uintptr_t)cxx->calls_of_bad_alloc + 2;
	cxx->throw(exception, (void *)(uintptr_t)cxx->type_of_bad_alloc, cxx->destroy_bad_alloc);
}

static OS_COLD void *new_failed(size_t size, size_t align)
{
	struct cxx cxx;
	bool found = find_cxx(&cxx);
	handler_fn *handler;
	void *block;

	while (cxx.get_new_handler && (handler = cxx.get_new_handler()) != NULL) {
		handler();
		block = align <= MALLOC_LEAST ? malloc(size) : aligned_alloc(align, size);
		if (block)
			return block;
	}
	if (found)
		throw_bad_alloc(&cxx);
#ifndef MALLOC_STATIC
	os_report("operator new(%zu): no memory, and no C++ library that throws std::bad_alloc",
		  size);
#endif
	abort();
}

#ifdef MALLOC_STATIC
static OS_NOINLINE void *new_rest(size_t size, size_t align)
{
	void *block = aligned_alloc(align, size);

	return os_likely(block) ? block : new_failed(size, align);
}

static OS_ALWAYS_INLINE void *new_fast(size_t size)
{
	void *block = malloc(size);

	return os_likely(block) ? block : new_failed(size, MALLOC_LEAST);
}
#else
/* It returns to the program, as malloc_rest(). */
static OS_NOINLINE void *new_rest(size_t size, size_t align)
{
	/* Aside, the names are those of the program's calls. */
	void *block = malloc_open() || os_load_acquire(&malloc_state) != MALLOC_ASIDE
			      ? malloc_aligned(align, size, KMALLOC_CALLER)
		      : align <= MALLOC_LEAST ? malloc(size)
					      : aligned_alloc(align, size);

	return os_likely(block) ? block : new_failed(size, align);
}

static OS_ALWAYS_INLINE void *new_fast(size_t size)
{
	void *block;

	return os_likely(kmalloc_pop(size, GFP_KERNEL, &block)) ? block
								: new_rest(size, MALLOC_LEAST);
}
#endif

#define NEW(name)                                                                                  \
	MALLOC_PUBLIC OS_FAST void *name(size_t size);                                             \
	void *name(size_t size)                                                                    \
	{                                                                                          \
		return new_fast(size);                                                             \
	}
#define NEW_ALIGNED(name)                                                                          \
	MALLOC_PUBLIC void *name(size_t size, size_t align);                                       \
	void *name(size_t size, size_t align)                                                      \
	{                                                                                          \
		return new_rest(size, align);                                                      \
	}

NEW(_Znwm)
NEW(_Znam)
NEW_ALIGNED(_ZnwmSt11align_val_t)
NEW_ALIGNED(_ZnamSt11align_val_t)

/* --- delete ----------------------------------------------------------------------------------- */

#ifdef MALLOC_STATIC
extern void free_aligned_sized(void *block, size_t align, size_t size);

static OS_ALWAYS_INLINE void delete_fast(void *block)
{
	free(block);
}

static OS_ALWAYS_INLINE void delete_sized(void *block, size_t size, size_t align)
{
	free_aligned_sized(block, align, size);
}
#else
static OS_NOINLINE void delete_rest(void *block)
{
	if (os_unlikely(os_load_relaxed(&malloc_state) == MALLOC_ASIDE))
		free(block);
	else
		malloc_free_rest(block);
}

static OS_ALWAYS_INLINE void delete_fast(void *block)
{
	if (os_unlikely(!malloc_push(block)))
		delete_rest(block);
}

static OS_COLD void delete_checked(void *block, size_t size, size_t align)
{
	malloc_check_size(block, size, align, false, "operator delete");
	delete_fast(block);
}

static OS_ALWAYS_INLINE void delete_sized(void *block, size_t size, size_t align)
{
	if (os_unlikely(os_load_relaxed(&malloc_checks_sizes)))
		delete_checked(block, size, align);
	else
		delete_fast(block);
}
#endif

#define DELETE(name, ...)                                                                          \
	MALLOC_PUBLIC OS_FAST void name(void *block, ##__VA_ARGS__);                               \
	void name(void *block, ##__VA_ARGS__)
#define UNUSED __attribute__((unused))

DELETE(_ZdlPv)
{
	delete_fast(block);
}
DELETE(_ZdaPv)
{
	delete_fast(block);
}
DELETE(_ZdlPvm, size_t size)
{
	delete_sized(block, size, 1);
}
DELETE(_ZdaPvm, size_t size)
{
	delete_sized(block, size, 1);
}
DELETE(_ZdlPvSt11align_val_t, size_t align UNUSED)
{
	delete_fast(block);
}
DELETE(_ZdaPvSt11align_val_t, size_t align UNUSED)
{
	delete_fast(block);
}
DELETE(_ZdlPvmSt11align_val_t, size_t size, size_t align)
{
	delete_sized(block, size, align);
}
DELETE(_ZdaPvmSt11align_val_t, size_t size, size_t align)
{
	delete_sized(block, size, align);
}
