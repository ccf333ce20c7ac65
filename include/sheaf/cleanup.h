/* SPDX-License-Identifier: MIT */
/*
 * Pointer variables that free their memory at the end of their block. <sheaf/slab.h> does not
 * include this header, because its names are short.
 *
 *     #include <sheaf/cleanup.h>
 *
 *     char *name __free(kfree) = kstrdup("name", GFP_KERNEL);
 *     if (!name || !valid(name))
 *         return NULL;          // freed here
 *     return_ptr(name);         // not freed: the caller's now
 *
 * Variables are freed in the reverse order of their declarations, on every way out of their block
 * except longjmp(), exit() and the end of a thread. NULL and the kernel's error pointers are left
 * alone. Initialise each variable where it is declared. For C and C++, with gcc or clang. Kernel:
 * <linux/cleanup.h>, the same names.
 *
 * In C alone, because C++ has constructors and these names break its headers: classes, which also
 * make the value of their variables; and guards, classes that hold a lock.
 *
 *     DEFINE_GUARD(mutex, pthread_mutex_t *, pthread_mutex_lock(_T), pthread_mutex_unlock(_T))
 *
 *     guard(mutex)(&table_lock);                // until the end of this block
 *     scoped_guard (mutex, &list_lock)          // for this statement
 *         list_add(item);
 */
#ifndef SHEAF_CLEANUP_H
#define SHEAF_CLEANUP_H

#include <sheaf/slab.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Define what __free(name) does with a variable of a pointer type: it executes `statement`, in
 * which the variable's value is _T. Use it at file scope, once for each name. This header defines
 * kfree, kvfree, vfree, kfree_sensitive and kfree_const.
 */
#define DEFINE_FREE(name, type, statement)                                                         \
	static inline __attribute__((__unused__)) void __free_##name(void *variable)               \
	{                                                                                          \
		type _T;                                                                           \
                                                                                                   \
		memcpy(&_T, variable, sizeof(_T));                                                 \
		statement;                                                                         \
	}

/* Write it after a variable in its declaration: at the end of its block, the variable is freed as
 * DEFINE_FREE() defined. */
#define __free(name) __attribute__((__cleanup__(__free_##name)))

/* The variable's value; the variable becomes NULL, so that nothing is freed. */
#define no_free_ptr(variable) SHEAF_CAST(__typeof__(variable), __sheaf_take_pointer(&(variable)))

/* Return the variable's value, which is not freed. */
#define return_ptr(variable) return no_free_ptr(variable)

/* The variable's value now has another owner: set the variable to NULL. */
#define retain_and_null_ptr(variable) SHEAF_CAST(void, __sheaf_take_pointer(&(variable)))

#ifndef __cplusplus
/*
 * Define the class `name` of variables of this type, at file scope. `init` is an expression for the
 * first value, with the arguments that follow it, or `void`. `exit` is a statement that is executed
 * at the end of a variable's block, with its value as _T.
 */
#define DEFINE_CLASS(name, type, exit, init, ...)                                                  \
	typedef type class_##name##_t;                                                             \
	static inline __attribute__((__unused__))                                                  \
	class_##name##_t class_##name##_constructor(__VA_ARGS__)                                   \
	{                                                                                          \
		class_##name##_t value = init;                                                     \
                                                                                                   \
		return value;                                                                      \
	}                                                                                          \
	static inline __attribute__((__unused__)) void class_##name##_destructor(                  \
		class_##name##_t *variable)                                                        \
	{                                                                                          \
		class_##name##_t _T = *variable;                                                   \
                                                                                                   \
		(void)_T;                                                                          \
		exit;                                                                              \
	}

/* Declare a variable of a class; the arguments of `init` follow: CLASS(file, f)("name"); */
#define CLASS(name, variable)                                                                      \
	class_##name##_t variable                                                                  \
		__attribute__((__unused__, __cleanup__(class_##name##_destructor))) =              \
			class_##name##_constructor

/* Define a class for guard(): its values are pointers of this type, `lock` and `unlock` statements
 * with the pointer as _T. A NULL pointer is not unlocked. */
#define DEFINE_GUARD(name, type, lock, unlock)                                                     \
	static inline __attribute__((__unused__)) type class_##name##_locked(type _T)              \
	{                                                                                          \
		lock;                                                                              \
		return _T;                                                                         \
	}                                                                                          \
	DEFINE_CLASS(                                                                              \
		name, type, if (_T) { unlock; }, class_##name##_locked(_T), type _T)

/* Lock until the end of the block: guard(name)(pointer); One in a line. */
#define guard(name) CLASS(name, SHEAF_UNIQUE(__guard_, __LINE__))

/* Lock for the statement that follows: scoped_guard (name, pointer) { ... } In it, `break` and
 * `continue` end the statement. */
#define scoped_guard(name, ...)                                                                    \
	for (int __scope_once = 1; __scope_once;)                                                  \
		for (CLASS(name, __scope)(__VA_ARGS__); __scope_once; __scope_once = 0)

#define SHEAF_UNIQUE(prefix, number)	SHEAF_UNIQUE_OF(prefix, number)
#define SHEAF_UNIQUE_OF(prefix, number) prefix##number
#endif

/* Private: of a variable of any pointer type. */
static __always_inline void *__sheaf_take_pointer(void *variable)
{
	void *value, *none = NULL;

	memcpy(&value, variable, sizeof(value));
	memcpy(variable, &none, sizeof(none));
	return value;
}

/* Private: an error number as a pointer, as the kernel's ERR_PTR() makes it. */
static __always_inline int __sheaf_is_error(const void *pointer)
{
	__UINTPTR_TYPE__ value;

	memcpy(&value, &pointer, sizeof(value));
	return value >= __UINTPTR_MAX__ - 4094;
}

DEFINE_FREE(kfree, const void *, if (!__sheaf_is_error(_T)) kfree(_T))
DEFINE_FREE(kvfree, const void *, if (!__sheaf_is_error(_T)) kvfree(_T))
DEFINE_FREE(vfree, const void *, if (!__sheaf_is_error(_T)) vfree(_T))
DEFINE_FREE(kfree_sensitive, const void *, if (!__sheaf_is_error(_T)) kfree_sensitive(_T))
DEFINE_FREE(kfree_const, const void *, if (!__sheaf_is_error(_T)) kfree_const(_T))

#ifdef __cplusplus
}
#endif

#endif
