/* SPDX-License-Identifier: MIT */
/* Copies of texts and memory, and formatted texts, from kmalloc(). Callers: programs. */

#include <stdio.h>

#include "kmalloc/kmalloc.h"

static void *copy(const void *from, size_t size, size_t bytes, gfp_t flags, uint64_t token)
{
	char *to = kmalloc_for(bytes, flags, NUMA_NO_NODE, token);

	if (ZERO_OR_NULL_PTR(to))
		return to;
	os_copy(to, from, size);
	if (bytes > size)
		to[size] = '\0';
	tools_wrote(to, bytes);
	return to;
}

static char *copy_text(const char *text, size_t length, gfp_t flags, uint64_t token)
{
	return length == SIZE_MAX ? NULL : copy(text, length, length + 1, flags, token);
}

SHEAF_PUBLIC OS_NOINLINE char *kstrdup(const char *text, gfp_t flags)
{
	return text ? copy_text(text, strlen(text), flags, KMALLOC_CALLER) : NULL;
}

SHEAF_PUBLIC OS_NOINLINE char *kstrndup(const char *text, size_t max, gfp_t flags)
{
	return text ? copy_text(text, strnlen(text, max), flags, KMALLOC_CALLER) : NULL;
}

SHEAF_PUBLIC OS_NOINLINE const char *kstrdup_const(const char *text, gfp_t flags)
{
	if (!text || os_is_constant(text))
		return text;
	return copy_text(text, strlen(text), flags, KMALLOC_CALLER);
}

SHEAF_PUBLIC void kfree_const(const void *text)
{
	if (!os_is_constant(text))
		kfree(text);
}

SHEAF_PUBLIC OS_NOINLINE void *kmemdup(const void *from, size_t size, gfp_t flags)
{
	return copy(from, size, size, flags, KMALLOC_CALLER);
}

SHEAF_PUBLIC OS_NOINLINE char *kmemdup_nul(const char *from, size_t size, gfp_t flags)
{
	return from ? copy_text(from, size, flags, KMALLOC_CALLER) : NULL;
}

/* --- formatted texts -------------------------------------------------------------------------- */

static char *print(gfp_t flags, const char *format, va_list arguments, uint64_t token)
{
	OS_KEEP_ERRNO;
	int length;
	char *text = NULL;
	va_list again;

	va_copy(again, arguments);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (length >= 0)
		text = kmalloc_for((size_t)length + 1, flags, NUMA_NO_NODE, token);
	/* Text that an argument points to may change in between: the result then ends where its
	 * memory does. */
	if (text && vsnprintf(text, (size_t)length + 1, format, arguments) < 0) {
		kfree(text);
		text = NULL;
	}
	return text;
}

SHEAF_PUBLIC OS_NOINLINE char *kvasprintf(gfp_t flags, const char *format, va_list arguments)
{
	return print(flags, format, arguments, KMALLOC_CALLER);
}

SHEAF_PUBLIC OS_NOINLINE char *kasprintf(gfp_t flags, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = print(flags, format, arguments, KMALLOC_CALLER);
	va_end(arguments);
	return text;
}
