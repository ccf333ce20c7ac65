/* SPDX-License-Identifier: MIT */
/*
 * What a later library may have: other sizes of kmalloc() (kmalloc/kmalloc.h); and the words of a
 * slot in other places (os/section.h), where a section in place finds 0 instead of the main sheaf.
 * So this library leaves the words of caches 0 (row_word() in cache/table.c).
 */
#define SHEAF_SLOT_WORDS 200

#define KMALLOC_SIZES                                                                              \
	{                                                                                          \
		.least = 16, .coarse_from = 4096, .fine = 2, .coarse = 0                           \
	}
