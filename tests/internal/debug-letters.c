/* SPDX-License-Identifier: MIT */
/* slab_debug: its grammar, which caches get which letters, and the room around their objects. */
#include <sheaf/kmalloc.h>
#include <sheaf/mempool.h>
#include <sheaf/slab.h>
#include <string.h>

#include "cache/cache.h"
#include "debug/object.h"
#include "debug/sample.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/section.h"

#define F SLAB_CONSISTENCY_CHECKS
#define Z SLAB_RED_ZONE
#define P SLAB_POISON
#define U SLAB_STORE_USER
#define T SLAB_TRACE
#define A SLAB_FAILSLAB
#define O DEBUG_NOT_LARGER
#define Q DEBUG_QUARANTINE

static struct capture captured;

/* What the text of SHEAF_OPTIONS gives to a cache of this name. */
static slab_flags_t flags_of(const char *text, const char *name)
{
	assert_true(os_options_parse(text));
	assert_true(debug_parse(os_options.slab_debug));
	return debug_flags_of(name, 0);
}

static void letters(void **state)
{
	static const struct {
		const char *text, *name;
		slab_flags_t flags;
	} cases[] = {
		{"", "conn", 0},
		{"slab_debug", "conn", F | Z | P | U},
		{"slab_debug=", "conn", F | Z | P | U},
		{"slab_debug=-", "conn", 0},
		{"slab_debug=F", "conn", F},
		{"slab_debug=fzputao", "conn", F | Z | P | U | T | A | O},
		{"slab_debug=O", "conn", 0},
		{"slab_debug=F;PQ,conn", "conn", P | Q},
		{"slab_debug=q", "conn", Q},
		{"slab_debug=OP", "conn", P | O},
		{"slab_debug=,conn", "conn", F | Z | P | U},
		{"slab_debug,conn", "conn", F | Z | P | U},
		{"slab_debug=,conn", "connection", 0},
		{"slab_debug=P,conn*", "connection", P},
		{"slab_debug=P,conn*", "con", 0},
		{"slab_debug=P,a,b,c", "b", P},
		{"slab_debug=P,*", "anything", P},
		/* The first block that names it; for others the last one without names. */
		{"slab_debug=F,conn;Z,co*;P;U", "conn", F},
		{"slab_debug=F,conn;Z,co*;P;U", "cope", Z},
		{"slab_debug=F,conn;Z,co*;P;U", "other", U},
		{"slab_debug=FZ;-,conn", "conn", 0},
		{"slab_debug=FZ;-,conn", "other", F | Z},
		{"slab_debug=FZ;,conn", "conn", F | Z | P | U},
		{"slab_debug=F,a;slab_debug=Z,b", "b", Z},
		/* Other options, before and after. */
		{"verbose;slab_debug=Z,conn;slab_nomerge", "conn", Z},
		{"slab_max_order=2 slab_debug=Z,conn slab_nomerge", "conn", Z},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (flags_of(cases[i].text, cases[i].name) != cases[i].flags)
			fail_msg("%s of %s", cases[i].name, cases[i].text);
	capture_begin(&captured);
	flags_of("verbose;slab_debug=Z,conn;slab_nomerge", "conn");
	assert_int_equal(os_options.verbose, 1);
	assert_int_equal(os_options.nomerge, 1);
	assert_int_equal(capture_end_deferred(&captured), 0);
}

static void what_a_creator_says_counts(void **state)
{
	(void)state;
	flags_of("slab_debug=Z", "conn");
	assert_int_equal(debug_flags_of("conn", P | SLAB_PANIC), Z | P);
	assert_int_equal(debug_flags_of("conn", P | SLAB_NO_USER_FLAGS), P);
	assert_int_equal(debug_flags_of("conn", SLAB_NO_USER_FLAGS), 0);
	flags_of("", "conn");
	assert_int_equal(debug_flags_of("conn", U), U);
}

static void says(const char *what)
{
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_non_null(strstr(captured.text, what));
}

static void bad_input(void **state)
{
	char longer[2 * OS_TEXT];

	(void)state;
	capture_begin(&captured);
	assert_false(debug_parse("FYX"));
	assert_int_equal(capture_end_deferred(&captured), 2);
	assert_non_null(strstr(captured.text,
			       "unknown letter 'Y' in \"FYX\" ignored. The letters are F ("));
	assert_int_equal(debug_flags_of("conn", 0), F);
	/* A name that is also an option is probably meant as an option. */
	capture_begin(&captured);
	os_options_parse("slab_debug=F,stats");
	says("\"stats\" after a comma is the name of a cache for slab_debug");
	capture_begin(&captured);
	os_options_parse("slab_debug=F;PZY,conn");
	assert_false(debug_parse(os_options.slab_debug));
	says("unknown letter 'Y' in \"PZY\"");
	assert_int_equal(debug_flags_of("conn", 0), P | Z);
	capture_begin(&captured);
	assert_false(os_options_parse("slab_debug=F;vrebose"));
	says("did you mean \"verbose\"?");
	memset(longer, 'F', sizeof(longer));
	memcpy(longer, "slab_debug=", 11);
	longer[sizeof(longer) - 1] = '\0';
	capture_begin(&captured);
	assert_false(os_options_parse(longer));
	says("the last block is left out");
	capture_begin(&captured);
	flags_of("slab_debug=F,one,tw*,three", "one");
	debug_flags_of("three", 0);
	os_names_report(&debug_blocks, "slab_debug: no cache");
	says("no cache matched \"tw*\"");
	capture_begin(&captured);
	flags_of("slab_debug=F,,", "conn");
	os_names_report(&debug_blocks, "slab_debug: no cache");
	assert_int_equal(capture_end_deferred(&captured), 0);
}

/* Zones, records and objects are where they should be, whatever the size and alignment. */
static void layout_of(size_t size, unsigned int align, slab_flags_t flags)
{
	const struct kmem_cache_args args = {.align = align};
	struct kmem_cache *s = kmem_cache_create("laid out", size, &args, flags);
	const struct debug_cache *debug;
	const char *before = NULL;
	void *objects[20];

	assert_non_null(s);
	debug = debug_of(&s->sheaf.slab);
	assert_int_equal(kmem_cache_size(s), size);
	assert_int_equal(debug->left, debug->flags & Z ? 16 : 0);
	assert_true(!(debug->flags & Z) || debug->right >= 8);
	assert_true(debug->extra.before + size + debug->right <= s->sheaf.slab.size);
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 20, objects), 20);
	for (int i = 0; i < 20; i++) {
		assert_int_equal((uintptr_t)objects[i] % align, 0);
		assert_int_equal((uintptr_t)debug_head(&s->sheaf.slab, objects[i]) % 8, 0);
		memset(objects[i], 0xff, size);
		if (before && page_slab(before) == page_slab(objects[i]))
			assert_true((char *)objects[i] - debug->extra.before >=
				    before + size + debug->right);
		before = objects[i];
	}
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_free_bulk(s, 20, objects);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

static void layouts(void **state)
{
	static const slab_flags_t all[] = {F, Z, P, U, F | Z, Z | P, F | Z | P | U};
	static const size_t sizes[] = {1, 7, 8, 13, 64, 100, 192, 4096, 5000, 8192, 70000};
	uint32_t before = os_reports;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++)
			for (unsigned int align = 8; align <= 8192; align *= 8)
				layout_of(sizes[j], align, all[i]);
	assert_int_equal(os_reports, before);
}

/* As many letters as possible: the others are left out (SLAB_DEBUG-D7). */
static void what_does_not_fit(void **state)
{
	const struct kmem_cache_args args = {.align = 1 << 20};
	struct kmem_cache *s = kmem_cache_create("huge", 4 << 20, &args, F | Z | P | U);
	char *object;

	(void)state;
	assert_non_null(s);
	assert_int_equal(debug_of(&s->sheaf.slab)->flags, F | Z | P | U);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	assert_non_null(object);
	assert_int_equal((uintptr_t)object % (1 << 20), 0);
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
	/* O: letters that make slabs larger. */
	s = kmem_cache_create("page", 4096, NULL, F | Z | U);
	assert_int_equal(debug_of(&s->sheaf.slab)->flags, F | Z | U);
	kmem_cache_destroy(s);
	flags_of("slab_debug=FZUO,page", "page");
	s = kmem_cache_create("page", 4000, NULL, 0);
	assert_int_equal(debug_of(&s->sheaf.slab)->flags, F);
	kmem_cache_destroy(s);
	s = kmem_cache_create("page", 64, NULL, 0);
	assert_int_equal(debug_of(&s->sheaf.slab)->flags, F | Z | U);
	kmem_cache_destroy(s);
	flags_of("", "page");
}

static void debug_caches_are_not_merged(void **state)
{
	struct kmem_cache *plain = kmem_cache_create("one", 72, NULL, 0), *s;

	(void)state;
	s = kmem_cache_create("two", 72, NULL, F);
	assert_ptr_not_equal(s, plain);
	flags_of("slab_debug=F,three", "three");
	assert_ptr_not_equal(kmem_cache_create("three", 72, NULL, 0), plain);
	assert_ptr_equal(kmem_cache_create("four", 72, NULL, 0), plain);
	flags_of("", "one");
}

static bool overflow_is_reported(char *block, size_t size)
{
	volatile size_t at = size; /* compilers know the size, too */

	block[at] = 1;
	capture_begin(&captured);
	kfree(block);
	return capture_end(&captured) > 0 && strstr(captured.text, ": kmalloc Redzone overwritten");
}

#define CONSTANT_IS_EXACT(size) assert_true(overflow_is_reported(kmalloc(size, GFP_KERNEL), size))

/* kmalloc() of a size: what follows its last byte is a red zone. */
static void kmalloc_gap(void **state)
{
	volatile size_t after = 18, any;
	char *volatile block; /* sanitizers know its size, too */

	(void)state;
	flags_of("slab_debug=FZPU,kmalloc-*", "");
	/* The very first call, too. */
	CONSTANT_IS_EXACT(1);
	block = kmalloc(18, GFP_KERNEL);
	assert_int_equal(ksize(block), 18);
	memset(block, 1, after + 1);
	capture_begin(&captured);
	kfree(block);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "BUG kmalloc-32: kmalloc Redzone overwritten"));
	assert_non_null(strstr(captured.text, "@offset=18..18. First byte 0x01 instead of 0xcc"));
	CONSTANT_IS_EXACT(63);
	CONSTANT_IS_EXACT(72);
	CONSTANT_IS_EXACT(127);
	CONSTANT_IS_EXACT(130);
	CONSTANT_IS_EXACT(1000);
	CONSTANT_IS_EXACT(1001);
	for (any = 1; any < 9000; any += 1 + any / 8)
		if (kmalloc_size_roundup(any) > any && any <= KMALLOC_MAX_CACHE_SIZE)
			assert_true(overflow_is_reported(kmalloc(any, GFP_NOWAIT), any));
	block = kmalloc_node(18, GFP_KERNEL, NUMA_NO_NODE);
	assert_int_equal(ksize(block), 18);
	block[after] = 1;
	capture_begin(&captured);
	kfree(block);
	assert_true(capture_end(&captured) > 0);
	block = kzalloc(100, GFP_KERNEL);
	for (int i = 0; i < 100; i++)
		assert_int_equal(block[i], 0);
	capture_begin(&captured);
	block = krealloc(block, 70, GFP_KERNEL | __GFP_ZERO);
	assert_int_equal(ksize(block), 70);
	block = krealloc(block, 120, GFP_KERNEL | __GFP_ZERO);
	memset(block, 1, ksize(block));
	kfree(block);
	kfree_sensitive(kmalloc(33, GFP_KERNEL));
	kfree(kstrdup("seventeen letters", GFP_KERNEL));
	assert_int_equal(capture_end(&captured), 0);
	/* What was written behind a block is found also if the block shrinks in place. */
	any = 100;
	block = kmalloc(any, GFP_KERNEL);
	block[any] = 1;
	capture_begin(&captured);
	kfree(krealloc(block, 98, GFP_KERNEL));
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "@offset=100..100. First byte 0x01 instead of 0xcc"));
	flags_of("", "");
}

/* --- frees of addresses in that room ---------------------------------------------------------- */

static void ignored_at(struct kmem_cache *s, void *pointer, const char *place, const char *advice)
{
	capture_begin(&captured);
	kmem_cache_free(s, pointer);
	assert_true(capture_end(&captured) > 0);
	if (!strstr(captured.text, "Invalid object pointer") || !strstr(captured.text, place) ||
	    !strstr(captured.text, advice))
		fail_msg("%s", captured.text);
}

static void pointers_beside_objects(void **state)
{
	struct kmem_cache *s = make("beside", 32, F | Z | P | U | SLAB_NO_USER_FLAGS);
	const struct slab_cache *slabs = &s->sheaf.slab;
	char *object = kmem_cache_alloc(s, GFP_KERNEL),
	     *first = slab_object(slabs, page_slab(object), 0);

	(void)state;
	ignored_at(s, object + 32, "is 0 bytes past the end of an object", "was allocated");
	ignored_at(s, object + 35, "is 3 bytes past the end of an object", "was allocated");
	ignored_at(s, object - 4, "is 4 bytes in front of an object", "was allocated");
	ignored_at(s, first - slabs->extra->before, "in front of an object", "was allocated");
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
}

/* In a part of the slab that has never been used. */
static void nothing_was_ever_there(void **state)
{
	struct kmem_cache *s = make("fresh", 8, Z | SLAB_NO_USER_FLAGS);
	const struct slab_cache *slabs = &s->sheaf.slab;
	char *object = kmem_cache_alloc(s, GFP_KERNEL);
	struct slab *slab = page_slab(object);
	unsigned int index = slab_order_of(slabs, slab->state).objects;

	(void)state;
	do
		assert_int_not_equal(index, 0);
	while (slab_is_prepared(slabs, slab, --index));
	ignored_at(s, slab_object(slabs, slab, index), "", "no object was ever allocated at this");
	ignored_at(s, slab_object(slabs, slab, index) + 4, "", "no object was ever allocated at");
	assert_null(strstr(captured.text, "slab_debug with U"));
	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
}

/* --- which objects are samples --- */

/* The numbers themselves, within a thousandth and their own deviation. */
static void draws(void **state)
{
	uint64_t sum = 0;
	uint32_t preset = os_options.sample;

	(void)state;
	sample_seed(1);
	os_options.sample = 512u << 10;
	for (int i = 0; i < 4000000; i++) {
		uint32_t pops = sample_pops(64);

		assert_in_range(pops, 1, SHEAF_MOST_LEFT);
		sum += pops;
	}
	/* 1 / (1 - exp(-64 / 524288)) +- 5 * that / sqrt(4000000). */
	assert_in_range(sum / 4000000, 8192 - 20, 8193 + 20);
	os_options.sample = 1;
	assert_int_equal(sample_pops(64), 1);
	assert_true(sample_is_taken(1));
	os_options.sample = preset;
}

static unsigned int count_failures(struct kmem_cache *s, unsigned int n, gfp_t flags)
{
	unsigned int failed = 0;

	for (unsigned int i = 0; i < n; i++) {
		void *object = kmem_cache_alloc(s, flags);

		failed += !object;
		kmem_cache_free(s, object);
	}
	return failed;
}

static void failures(void **state)
{
	struct kmem_cache *s = make("failing", 32, SLAB_FAILSLAB | SLAB_NO_USER_FLAGS),
			  *other = make("fine", 32, F | Z | P | U | SLAB_NO_USER_FLAGS);
	unsigned int failed;

	(void)state;
	capture_begin(&captured);
	os_options.failslab_probability = 20;
	failed = count_failures(s, 1000, GFP_KERNEL);
	assert_in_range(failed, 100, 300);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "an allocation from failing fails on purpose"));
	assert_int_equal(count_failures(s, 1000, GFP_KERNEL | __GFP_NOFAIL), 0);
	assert_int_equal(count_failures(other, 1000, GFP_KERNEL), 0);
	os_options.failslab_probability = 100;
	assert_int_equal(count_failures(s, 100, GFP_KERNEL), 100);
	assert_null(kmem_cache_prefill_sheaf(s, GFP_KERNEL, 4));
	assert_null(kmem_cache_alloc_nolock(s, GFP_NOWAIT));
	assert_null(mempool_create_slab_pool(2, s));
	os_options.failslab_interval = 10;
	assert_in_range(count_failures(s, 100, GFP_KERNEL), 9, 11);
	os_options.failslab_interval = 1;
	os_options.failslab_times = 5;
	assert_int_equal(count_failures(s, 100, GFP_KERNEL), 5);
	os_options.failslab_times = 0;
	os_options.failslab_probability = 1;
	kmem_cache_destroy(other);
	kmem_cache_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kmalloc_gap),
		cmocka_unit_test(letters),
		cmocka_unit_test(what_a_creator_says_counts),
		cmocka_unit_test(bad_input),
		cmocka_unit_test(layouts),
		cmocka_unit_test(what_does_not_fit),
		cmocka_unit_test(debug_caches_are_not_merged),
		cmocka_unit_test(pointers_beside_objects),
		cmocka_unit_test(nothing_was_ever_there),
		cmocka_unit_test(draws),
		cmocka_unit_test(failures),
	};

	/* The library reads its own options at its first use. */
	kmem_cache_destroy(kmem_cache_create("first", 8, NULL, SLAB_NO_MERGE));
	/* A sanitizer would end the program at the first misuse. */
	os.tools = 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
