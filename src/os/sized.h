/* SPDX-License-Identifier: MIT */
/*
 * Structures of the public interface that a caller fills in, and that may grow at their end.
 *
 * Each comes with its size, as the caller's header had it. Fields that the caller's header did not have yet
 * are zero, which always means what was before. Fields that only the caller's has must be zero, too: else it
 * asks for what this library does not know, and is refused. No header's structure ends within a field.
 * docs/versioning.md is for users of this.
 *
 * Callers: src/grace/, src/cache/.
 */
#ifndef SHEAF_OS_SIZED_H
#define SHEAF_OS_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Any of them has pointers, and is a multiple of one. */
static inline bool os_sized_whole(size_t size)
{
	return size % sizeof(void *) == 0;
}

/* `from` may be NULL, of size 0; the size is a whole one. False if it says something that is not known. */
static inline bool os_sized_copy(void *to, size_t to_size, const void *from, size_t from_size)
{
	memset(to, 0, to_size);
	if (from_size)
		memcpy(to, from, from_size < to_size ? from_size : to_size);
	for (size_t i = to_size; i < from_size; i++)
		if (((const char *)from)[i])
			return false;
	return true;
}

#endif
