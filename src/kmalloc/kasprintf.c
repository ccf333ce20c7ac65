/* SPDX-License-Identifier: MIT */
/* Formatted texts in memory from kmalloc(). Callers: programs. */
#include <stdio.h>

#include "kmalloc/kmalloc.h"

static char *print(gfp_t flags, const char *format, va_list arguments, const void *caller)
{
	OS_KEEP_ERRNO;
	int length;
	char *text = NULL;
	va_list again;

	va_copy(again, arguments);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (length >= 0)
		text = kmalloc_for((size_t)length + 1, flags, NUMA_NO_NODE, caller);
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
	return print(flags, format, arguments, __builtin_return_address(0));
}

SHEAF_PUBLIC OS_NOINLINE char *kasprintf(gfp_t flags, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = print(flags, format, arguments, __builtin_return_address(0));
	va_end(arguments);
	return text;
}
