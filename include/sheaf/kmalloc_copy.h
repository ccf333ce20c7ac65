/* SPDX-License-Identifier: MIT */
/*
 * Copies of memory and strings, and formatted strings, from kmalloc(). Included by <sheaf/slab.h>.
 *
 *     char *name = kasprintf(GFP_KERNEL, "%s-%d", "disk", 3), *copy = kstrdup(name, GFP_KERNEL);
 *
 * The rules of <sheaf/kmalloc.h> apply here, too.
 */
#ifndef SHEAF_KMALLOC_COPY_H
#define SHEAF_KMALLOC_COPY_H

#include <sheaf/kmalloc.h>
#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Return a copy of a string, to be freed by kfree(); NULL for NULL, and if there is no memory.
 * kstrndup() copies at most max bytes, and adds a zero byte. O(length). */
SHEAF_FRESH char *kstrdup(const char *text, gfp_t flags) SHEAF_SYMBOL(kstrdup);
SHEAF_FRESH char *kstrndup(const char *text, size_t max, gfp_t flags) SHEAF_SYMBOL(kstrndup);

/* kstrdup() with each character `from` replaced by `to`. */
static inline SHEAF_FRESH char *kstrdup_and_replace(const char *text, char from, char to,
						    gfp_t flags)
{
	char *copy = kstrdup(text, flags);

	for (char *at = copy; at && *at; at++)
		if (*at == from)
			*at = to;
	return copy;
}

/*
 * kstrdup() that does not copy constants: a string in a read-only part of the program's own file,
 * such as most literals, is returned as it is. Strings of shared libraries are copied, because
 * these may be unloaded. Free the result only by kfree_const(), which leaves constants alone.
 * O(length).
 */
SHEAF_CHECK_RESULT const char *kstrdup_const(const char *text, gfp_t flags)
	SHEAF_SYMBOL(kstrdup_const);
void kfree_const(const void *text) SHEAF_SYMBOL(kfree_const);

/* Return a copy of size bytes, to be freed by kfree(); NULL if there is no memory. kmemdup_nul()
 * adds a zero byte, and returns NULL for NULL. O(size). */
SHEAF_OBJECT SHEAF_SIZED(2) void *kmemdup(const void *from, size_t size, gfp_t flags)
	SHEAF_SYMBOL(kmemdup);
SHEAF_FRESH char *kmemdup_nul(const char *from, size_t size, gfp_t flags) SHEAF_SYMBOL(kmemdup_nul);

/* kmemdup() of n * size bytes; NULL if the product overflows. */
static __always_inline SHEAF_OBJECT SHEAF_SIZED(2, 3) void *kmemdup_array(const void *from,
									  size_t n, size_t size,
									  gfp_t flags)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : kmemdup(from, bytes, flags);
}

/* kmemdup() of up to INT_MAX bytes, to be freed by kvfree(). */
static __always_inline SHEAF_OBJECT SHEAF_SIZED(2) void *kvmemdup(const void *from, size_t size,
								  gfp_t flags)
{
	void *to = kvmalloc(size, flags);

	if (size && to)
		__builtin_memcpy(to, from, size);
	return to;
}

/*
 * Return a string formatted as by printf(), to be freed by kfree(). The formats are those of the C
 * library. NULL if there is no memory or the format fails. O(length): it is formatted twice.
 */
SHEAF_FRESH char *kasprintf(gfp_t flags, const char *format, ...) SHEAF_SYMBOL(kasprintf)
	__attribute__((__format__(__printf__, 2, 3)));
SHEAF_FRESH char *kvasprintf(gfp_t flags, const char *format, va_list arguments)
	SHEAF_SYMBOL(kvasprintf) __attribute__((__format__(__printf__, 2, 0)));

/* Free a list of n strings and the strings, all by kfree(). NULL is allowed, as the list and as a
 * string. O(n). */
static inline void kfree_strarray(char **array, size_t n)
{
	if (!array)
		return;
	for (size_t i = 0; i < n; i++)
		kfree(array[i]);
	kfree(array);
}

/*
 * Return a list of the n strings PREFIX-0, PREFIX-1 and so on, with NULL after the last, to be
 * freed by kfree_strarray(); NULL if there is no memory. O(n).
 */
static inline SHEAF_OBJECT char **kasprintf_strarray(gfp_t gfp, const char *prefix, size_t n)
{
	void *list = n < SIZE_MAX ? kcalloc(n + 1, sizeof(char *), gfp) : NULL;
	char **array = SHEAF_CAST(char **, list);

	for (size_t i = 0; array && i < n; i++) {
		array[i] = kasprintf(gfp, "%s-%zu", prefix, i);
		if (!array[i]) {
			kfree_strarray(array, i);
			array = NULL;
		}
	}
	return array;
}

#ifdef __cplusplus
}
#endif

#endif
