/* SPDX-License-Identifier: MIT */
/*
 * What a later library may have: other kmalloc() sizes, more, and larger (kmalloc/kmalloc.h); and
 * the words of a slot in other places (os/section.h), where a section in place finds 0 instead of
 * the main sheaf. So this library leaves the words of caches 0 (row_word() in cache/table.c).
 */
#define SHEAF_SLOT_WORDS 200

#define KMALLOC_SIZES(X)                                                                           \
	X(0, 8)                                                                                    \
	X(8, 16)                                                                                   \
	X(16, 32)                                                                                  \
	X(32, 48)                                                                                  \
	X(48, 64)                                                                                  \
	X(64, 80)                                                                                  \
	X(80, 128)                                                                                 \
	X(128, 160)                                                                                \
	X(160, 256)                                                                                \
	X(256, 320)                                                                                \
	X(320, 512)                                                                                \
	X(512, 768)                                                                                \
	X(768, 1024)                                                                               \
	X(1024, 1360)                                                                              \
	X(1360, 2048)                                                                              \
	X(2048, 3072)                                                                              \
	X(3072, 4096)                                                                              \
	X(4096, 8192)
#define KMALLOC_LARGER(X)                                                                          \
	X(8192, 12288)                                                                             \
	X(12288, 16384)                                                                            \
	X(16384, 1048576)
#define KMALLOC_LARGEST 1048576
