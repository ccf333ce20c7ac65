/* SPDX-License-Identifier: MIT */
/*
 * Each call of the family does what the C library's does. The same program runs on the C library's
 * malloc(): what is checked is true of both.
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>

#include "check.h"

#define TOO_MUCH      HIDDEN((size_t)PTRDIFF_MAX + 1)
#define NO_MORE(call) CHECK((errno = 0, (call) == NULL) && errno == ENOMEM)

static bool on_glibc;

static bool is_zero(const unsigned char *block, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (block[i])
			return false;
	return true;
}

static bool is_aligned(const void *block, size_t align)
{
	return block && !((uintptr_t)block & (align - 1));
}

/* Sizes up to `most`, in steps of an eighth. */
#define for_each_size(size, from, most)                                                            \
	for (size_t size = (from); size <= (most); size += size / 8 + 1)

static void sizes(void)
{
	for_each_size(size, 0, 3 << 20)
	{
		unsigned char *block = malloc(HIDDEN(size));
		size_t usable = malloc_usable_size(block);

		CHECK(is_aligned(block, 16) && usable >= size);
		memset(block, 0xee, usable);
		CHECK(malloc_usable_size(block) == usable);
		free(block);
		block = calloc(HIDDEN(size), 1);
		CHECK(is_aligned(block, 16) && is_zero(block, size));
		memset(block, 0xee, malloc_usable_size(block));
		free(block);
	}
	CHECK(malloc_usable_size(NULL) == 0);
}

/* Used memory that is allocated again is zero, too. */
static void zeroed(void)
{
	for_each_size(size, 100 << 10, 20 << 20) for (int i = 0; i < 2; i++)
	{
		unsigned char *block = calloc(1, HIDDEN(size));

		CHECK(block);
		for (size_t at = 0; at < size; at += 997)
			CHECK(!block[at]);
		CHECK(!block[size - 1]);
		memset(block, 0xee, size < 8 << 20 ? size : 8 << 20);
		free(block);
	}
}

static void too_much(void)
{
	char *block = malloc(100);

	NO_MORE(malloc(TOO_MUCH));
	NO_MORE(malloc(HIDDEN(SIZE_MAX)));
	NO_MORE(malloc(HIDDEN(SIZE_MAX - 15)));
	NO_MORE(calloc(HIDDEN(SIZE_MAX / 2), 3));
	NO_MORE(calloc(1, HIDDEN(SIZE_MAX)));
	NO_MORE(memalign(64, TOO_MUCH));
	NO_MORE(memalign(HIDDEN((size_t)1 << 62), HIDDEN((size_t)1 << 62)));
	NO_MORE(aligned_alloc(64, HIDDEN(SIZE_MAX - 100)));
	NO_MORE(valloc(TOO_MUCH));
	NO_MORE(pvalloc(HIDDEN(SIZE_MAX - 100)));
	NO_MORE(reallocarray(NULL, HIDDEN(SIZE_MAX), 2));
	memset(block, 7, 100);
	NO_MORE(realloc(block, TOO_MUCH));
	CHECK(block[0] == 7 && block[99] == 7);
	free(block);
}

static void aligned(void)
{
	void *block = (void *)1, *blocks[8];

	for (size_t align = 1; align <= 16 << 20; align *= 2)
		for (size_t size = 0; size < 5 << 20; size = size * 5 + 3) {
			char *one = memalign(align, size), *other;

			CHECK(is_aligned(one, align) && malloc_usable_size(one) >= size);
			if (size)
				one[0] = one[size - 1] = 1;
			free(one);
			one = aligned_alloc(align, size);
			CHECK(is_aligned(one, align));
			if (align < sizeof(void *)) {
				CHECK(posix_memalign(&block, align, size) == EINVAL);
				free(one);
				continue;
			}
			CHECK(!posix_memalign(&block, align, size) && is_aligned(block, align));
			other = realloc(block, size + 100);
			CHECK(is_aligned(other, 16));
			free(one);
			free(other);
		}
	block = (void *)1;
	errno = 5;
	CHECK(posix_memalign(&block, HIDDEN((size_t)24), 10) == EINVAL);
	CHECK(posix_memalign(&block, 64, HIDDEN(SIZE_MAX - 100)) == ENOMEM);
	CHECK(block == (void *)1 && (errno == 5 || on_glibc));
	for (int i = 0; i < 8; i++) {
		blocks[i] = memalign(HIDDEN((size_t)48), 10);
		CHECK(is_aligned(blocks[i], 64));
	}
	for (int i = 0; i < 8; i++)
		free(blocks[i]);
	block = valloc(10);
	CHECK(is_aligned(block, 4096));
	free(block);
	block = pvalloc(4097);
	CHECK(is_aligned(block, 4096) && malloc_usable_size(block) >= 8192);
	free(block);
}

static void resized(void)
{
	unsigned char *block = realloc(NULL, HIDDEN((size_t)10));
	size_t usable;

	CHECK(block);
	memset(block, 1, 10);
	for_each_size(size, 11, 40 << 20)
	{
		block = realloc(block, size);
		CHECK(is_aligned(block, 16) && malloc_usable_size(block) >= size);
		CHECK(block[0] == 1 && block[9] == 1);
		block[size - 1] = 2;
	}
	for (size_t size = 40 << 20; size >= 10; size = size * 2 / 3) {
		block = realloc(block, size);
		CHECK(block && block[0] == 1 && block[9] == 1);
	}
	CHECK(realloc(block, 0) == NULL); /* frees it */
	/* Everything that was usable moves. */
	block = malloc(HIDDEN((size_t)1000));
	usable = malloc_usable_size(block);
	for (size_t i = 0; i < usable; i++)
		block[i] = (unsigned char)i;
	block = realloc(block, 100000);
	for (size_t i = 0; i < usable; i++)
		CHECK(block[i] == (unsigned char)i);
	free(block);
}

static void keeps_errno(void)
{
	void *small = malloc(HIDDEN((size_t)10)), *large = malloc(HIDDEN((size_t)50 << 20));

	errno = 77;
	free(small);
	free(large);
	free(NULL);
	CHECK(errno == 77);
	small = malloc(HIDDEN((size_t)3000));
	CHECK(small && errno == 77);
	free(small);
}

static void sized(void)
{
	typedef void sized_fn(void *block, size_t size);
	typedef void aligned_fn(void *block, size_t align, size_t size);
	sized_fn *free_sized = (sized_fn *)dlsym(RTLD_DEFAULT, "free_sized");
	aligned_fn *free_aligned_sized = (aligned_fn *)dlsym(RTLD_DEFAULT, "free_aligned_sized");

	if (on_glibc && !free_sized) /* older than these calls */
		return;
	CHECK(free_sized && free_aligned_sized);
	free_sized(malloc(100), 100);
	free_sized(NULL, 0);
	free_aligned_sized(aligned_alloc(64, 640), 64, 640);
	free_aligned_sized(NULL, 64, 64);
}

/* Freed memory counts once, as free, wherever the library keeps it. */
static void amounts(void)
{
	size_t size = 32 << 20;
	struct mallinfo2 before, now;

	malloc_trim(0);
	before = mallinfo2();
	free(malloc(HIDDEN(size)));
	now = mallinfo2();
	CHECK(now.arena + now.hblkhd == now.uordblks + now.fordblks);
	CHECK(now.fordblks <= before.fordblks + size);
	CHECK(now.arena + now.hblkhd <= before.arena + before.hblkhd + size);
}

static void information(void)
{
	char text[4096] = "";
	FILE *to = fmemopen(text, sizeof(text), "w");

	CHECK(to && !malloc_info(0, to) && !fclose(to));
	CHECK(!strncmp(text, "<malloc version=", 16) && strstr(text, "</malloc>"));
	errno = 0;
	CHECK(malloc_info(1, stderr));
	CHECK(mallinfo2().uordblks > 0);
	CHECK(mallopt(M_ARENA_MAX, 1) == 1);
	malloc_trim(0);
	malloc_stats();
}

int main(int argc, char **argv)
{
	(void)argv;
	on_glibc = argc > 1;
	if (!on_glibc)
		check_ours();
	sizes();
	zeroed();
	too_much();
	aligned();
	resized();
	keeps_errno();
	sized();
	if (!on_glibc) /* which does not count mappings as in use */
		amounts();
	information();
	return 0;
}
