/* SPDX-License-Identifier: MIT */
/* kmalloc()'s sizes as a later library may have them: different ones, more, and larger. See
 * kmalloc/kmalloc.h. */
#define KMALLOC_SIZES(X)                                                                           \
	X(1, 0, 8)                                                                                 \
	X(2, 8, 16)                                                                                \
	X(3, 16, 32)                                                                               \
	X(4, 32, 48)                                                                               \
	X(5, 48, 64)                                                                               \
	X(6, 64, 80)                                                                               \
	X(7, 80, 128)                                                                              \
	X(8, 128, 160)                                                                             \
	X(9, 160, 256)                                                                             \
	X(10, 256, 320)                                                                            \
	X(11, 320, 512)                                                                            \
	X(12, 512, 768)                                                                            \
	X(13, 768, 1024)                                                                           \
	X(14, 1024, 1360)                                                                          \
	X(15, 1360, 2048)                                                                          \
	X(16, 2048, 3072)                                                                          \
	X(17, 3072, 4096)                                                                          \
	X(18, 4096, 8192)                                                                          \
	X(19, 8192, 12288)                                                                         \
	X(20, 12288, 16384)
#define KMALLOC_CACHES	21
#define KMALLOC_LARGEST 16384
