/* SPDX-License-Identifier: MIT */
/*
 * Structures of the public interface that a caller fills in and that may grow at their end.
 *
 * The caller passes the structure's size from its header. Fields that are missing in the caller's
 * header are zero here, and zero always means the earlier behaviour. Fields that this library does
 * not know must be zero too; otherwise the call is refused. No version of a structure ends within a
 * field. docs/versioning.md describes this for users.
 *
 * Callers: src/grace/, src/cache/.
 */
#ifndef SHEAF_OS_SIZED_H
#define SHEAF_OS_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* These structures contain pointers, so their size is a multiple of a pointer's. */
static inline bool os_sized_whole(size_t size)
{
	return size % sizeof(void *) == 0;
}

/* False: of a structure of this size, a field beyond the known ones is set. */
static inline bool os_sized_known(const void *from, size_t known, size_t size)
{
	for (size_t i = known; i < size; i++)
		if (((const char *)from)[i])
			return false;
	return true;
}

/*
 * `from` may be NULL with size 0; the size must be whole. Returns false if an unknown field is set.
 */
static inline bool os_sized_copy(void *to, size_t to_size, const void *from, size_t from_size)
{
	memset(to, 0, to_size);
	if (from_size)
		memcpy(to, from, from_size < to_size ? from_size : to_size);
	return os_sized_known(from, to_size, from_size);
}

#endif
