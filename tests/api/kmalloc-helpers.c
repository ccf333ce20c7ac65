/* SPDX-License-Identifier: MIT */
/* The kernel's calls around kmalloc(): arrays on a node, bulk frees, whole pages, strings, objects
 * of a type, cleanup. */
#include <errno.h>
#include <locale.h>
#include <sheaf/cleanup.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <sheaf/trim.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#include "kit/blocks.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/unit.h"

enum {
	MiB = 1 << 20
};

static struct capture captured;

static void arrays_on_a_node(void **state)
{
	static const char zeros[4000];
	volatile size_t half = (size_t)1 << 63, most = SIZE_MAX; /* or compilers warn */

	(void)state;
	for (int node = 0; node < (int)library().nodes; node++) {
		char *p = kmalloc_array_node(10, 40, GFP_KERNEL | __GFP_THISNODE, node);

		memset(p, 0xff, 400);
		kfree(p);
		p = kcalloc_node(100, 40, GFP_KERNEL, node);
		assert_memory_equal(p, zeros, 4000);
		kfree(p);
		p = kvcalloc_node(100, 40, GFP_KERNEL, NUMA_NO_NODE);
		assert_memory_equal(p, zeros, 4000);
		kvfree(p);
		p = kvmalloc_array_node(3, MiB, GFP_KERNEL, node);
		assert_int_equal(ksize(p), 3 * MiB);
		kvfree(p);
	}
	assert_null(kmalloc_array_node(half, 2, GFP_KERNEL, 0));
	assert_null(kcalloc_node(2, half, GFP_KERNEL, 0));
	assert_null(kvmalloc_array_node(half, 4, GFP_KERNEL, 0));
	assert_null(kvcalloc_node(most, most, GFP_KERNEL, 0));
}

/* Blocks of any size, in any order, with NULL and ZERO_SIZE_PTR among them. */
static void bulk_free(void **state)
{
	static void *p[500];
	struct sheaf_stats before, after;

	(void)state;
	kfree(kmalloc(8, GFP_KERNEL));
	sheaf_stats(&before);
	for (size_t i = 0; i < 500; i++)
		p[i] = i % 50 ? kvmalloc(i * i, GFP_KERNEL) : NULL;
	capture_begin(&captured);
	kfree_bulk(500, p);
	kfree_bulk(0, NULL);
	assert_int_equal(capture_end(&captured), 0);
	sheaf_stats(&after);
	assert_int_equal(after.mapped_bytes, before.mapped_bytes);
}

static void whole_pages(void **state)
{
	static const size_t sizes[] = {1, 4096, 4097, 100000, 2 * MiB, 5 * MiB + 1};
	volatile size_t most = SIZE_MAX;

	(void)state;
	errno = 33;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char *p = vmalloc(sizes[i]);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 4096, 0);
		assert_true(ksize(p) >= sizes[i] && ksize(p) % 4096 == 0);
		memset(p, 0x5a, ksize(p));
		vfree(p);
		p = vzalloc(sizes[i]);
		for (size_t j = 0; j < sizes[i]; j += 13)
			assert_int_equal(p[j], 0);
		p = kvrealloc(p, 3 * sizes[i], GFP_KERNEL);
		kvfree(p);
	}
	vfree(NULL);
	capture_begin(&captured);
	assert_null(vmalloc(0));
	assert_null(vmalloc(most));
	assert_null(vzalloc(most / 2));
	assert_null(__vmalloc((size_t)1 << 47, GFP_NOWAIT));
	assert_int_equal(capture_end(&captured), 0);
	assert_int_equal(errno, 33);
}

static char *by_list(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = kvasprintf(GFP_NOWAIT, format, arguments);
	va_end(arguments);
	return text;
}

static void printed(void **state)
{
	static const wchar_t no_character[] = {0x7fffffff, 0};
	char *text = kasprintf(GFP_KERNEL, "%s-%d", "sda", 12), *longer;

	(void)state;
	errno = 33;
	assert_string_equal(text, "sda-12");
	longer = by_list("%s/%09000d", text, 7);
	assert_int_equal(strlen(longer), 7 + 9000);
	assert_int_equal(longer[7 + 8999], '7');
	kfree(longer);
	kfree(text);
	text = kasprintf(GFP_KERNEL, "%s", "");
	assert_string_equal(text, "");
	kfree(text);
	assert_null(kasprintf(GFP_KERNEL, "%ls", no_character));
	assert_null(by_list("%*d", 5 * MiB, 1));
	assert_int_equal(errno, 33);
}

static const char constant[] = "a constant of this program";
static const char *const relocated[] = {constant};

static void copies_of_nothing_and_too_much(void **state)
{
	(void)state;
	assert_null(kmemdup_nul(NULL, 5, GFP_KERNEL));
	assert_null(kmemdup_nul("text", SIZE_MAX, GFP_KERNEL)); /* no room for the zero byte */
}

static void constants_are_not_copied(void **state)
{
	static char written[] = "a variable";
	char on_stack[] = "on the stack";
	const char *literal = "a literal",
		   *texts[] = {written, on_stack, setlocale(LC_ALL, NULL), strerror(ENOMEM)};

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_ptr_equal(kstrdup_const(constant, GFP_KERNEL), constant);
		assert_ptr_equal(kstrdup_const(relocated[0], GFP_KERNEL), constant);
		assert_ptr_equal(kstrdup_const(literal, GFP_KERNEL), literal);
		assert_null(kstrdup_const(NULL, GFP_KERNEL));
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *copy = kstrdup_const(texts[i], GFP_KERNEL);

		assert_ptr_not_equal(copy, texts[i]);
		assert_string_equal(copy, texts[i]);
		kfree_const(copy);
	}
	capture_begin(&captured);
	kfree_const(constant);
	kfree_const(literal);
	kfree_const(NULL);
	kfree_const(kmalloc(0, GFP_KERNEL));
	assert_int_equal(capture_end(&captured), 0);
}

struct point {
	double x, y, z;
};

struct text {
	size_t length;
	uint32_t characters[];
};

/* The first and the last byte of each block are usable, and zero if that is requested. */
static void aligned_blocks(void **state)
{
	static const size_t sizes[] = {1,	24,	     100,     4097,   30000,
				       MiB - 1, 3 * MiB / 2, 3 * MiB, 9 * MiB};
	volatile size_t most = SIZE_MAX - 10;
	struct capture captured;

	(void)state;
	for (unsigned long align = 1; align <= 1ul << 30; align *= 2)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			char *p = kvmalloc_node_align(sizes[i], align, GFP_KERNEL | __GFP_ZERO,
						      NUMA_NO_NODE);

			assert_non_null(p);
			assert_int_equal((uintptr_t)p % align, 0);
			assert_true(ksize(p) >= sizes[i]);
			assert_int_equal(p[0] | p[sizes[i] - 1], 0);
			p[0] = p[sizes[i] - 1] = 1;
			kvfree(p);
		}
	assert_ptr_equal(kvmalloc_node_align(0, 64, GFP_KERNEL, 0), ZERO_SIZE_PTR);
	capture_begin(&captured);
	assert_null(kvmalloc_node_align(100, 0, GFP_KERNEL, 0));
	assert_null(kvmalloc_node_align(100, 96, GFP_KERNEL, 0));
	assert_null(kvmalloc_node_align(100, 1ul << 31, GFP_KERNEL, 0));
	assert_null(kvmalloc_node_align(most, 64, GFP_KERNEL, 0));
	assert_int_equal(capture_end(&captured), 4);
	assert_non_null(strstr(captured.text, "kvmalloc_node_align(100, 96): invalid align"));
}

static void objects_of_a_type(void **state)
{
	volatile size_t n = 100, half = (size_t)1 << 63, most = SIZE_MAX / 4;
	struct point *p = kmalloc_obj(*p), *q = kzalloc_obj(struct point, GFP_NOWAIT);
	struct text *t = kmalloc_flex(*t, characters, n);

	(void)state;
	assert_int_equal(ksize(p), usable(sizeof(*p), 32));
	assert_true(q->x == 0 && q->z == 0);
	assert_int_equal(ksize(t), usable(sizeof(*t) + 400, 416));
	kfree(p);
	kfree(q);
	kfree(t);
	p = kzalloc_objs(*p, n);
	assert_int_equal(ksize(p), usable(100 * sizeof(*p), 2560));
	assert_true(p[99].z == 0);
	kfree(p);
	p = kvmalloc_objs(*p, 4 * MiB, GFP_KERNEL);
	assert_int_equal(ksize(p), 96 * MiB);
	kvfree(p);
	t = kvzalloc_flex(struct text, characters, 2 * MiB, GFP_KERNEL);
	assert_true(ksize(t) >= 8 * MiB + sizeof(*t));
	assert_int_equal(t->characters[2 * MiB - 1], 0);
	kvfree(t);
	assert_null(kmalloc_objs(*p, half));
	capture_begin(&captured);
	assert_null(kmalloc_flex(*t, characters, half));
	assert_null(kvzalloc_flex(*t, characters, most));
	assert_int_equal(capture_end(&captured), 0);
}

static int nr_put;

static void put(struct point *p)
{
	nr_put++;
	kfree(p);
}

DEFINE_FREE(put, struct point *, if (_T) put(_T))

static char *kept(bool keep)
{
	const char *first __free(kfree_const) = kstrdup_const(keep ? constant : "", GFP_KERNEL);
	char *second __free(kfree) = kasprintf(GFP_KERNEL, "of %s", first);
	struct point *p __free(put) = kmalloc_obj(*p), *none __free(put) = NULL;

	(void)none;
	if (!keep || !p)
		return NULL;
	return_ptr(second);
}

static void variables_free(void **state)
{
	void *large __free(kvfree) = kvmalloc(3 * MiB, GFP_KERNEL);
	void *gone __free(kfree) = kmalloc(100, GFP_KERNEL), *mine;
	/* As ERR_PTR(-ENOMEM) is: nothing to free, and no mistake. */
	void *failed __free(kfree) = (void *)(intptr_t)-ENOMEM;
	struct sheaf_stats before, after;
	char *text;

	(void)state;
	(void)failed;
	sheaf_trim(0); /* A freed block that waits may be larger. */
	sheaf_stats(&before);
	{
		void *pages __free(vfree) = vmalloc(7 * MiB);
		char *secret __free(kfree_sensitive) = kzalloc(30, GFP_KERNEL);

		assert_true(pages && secret);
		sheaf_stats(&after);
		assert_int_equal(after.mapped_bytes, before.mapped_bytes + 7 * MiB);
	}
	sheaf_stats(&after);
	assert_int_equal(after.mapped_bytes, before.mapped_bytes);
	assert_null(kept(false));
	assert_int_equal(nr_put, 1);
	text = kept(true);
	assert_string_equal(text, "of a constant of this program");
	assert_int_equal(nr_put, 2);
	kfree(text);
	mine = no_free_ptr(gone);
	assert_null(gone);
	kfree(mine);
	kvfree(large);
	retain_and_null_ptr(large);
	assert_null(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrays_on_a_node),
		cmocka_unit_test(bulk_free),
		cmocka_unit_test(whole_pages),
		cmocka_unit_test(printed),
		cmocka_unit_test(copies_of_nothing_and_too_much),
		cmocka_unit_test(constants_are_not_copied),
		cmocka_unit_test(aligned_blocks),
		cmocka_unit_test(objects_of_a_type),
		cmocka_unit_test(variables_free),
	};

	return cmocka_run_group_tests_name("kmalloc-helpers", tests, NULL, NULL);
}
