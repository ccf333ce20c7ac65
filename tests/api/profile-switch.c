/* SPDX-License-Identifier: MIT */
/*
 * The heap profile of a running process, through its control socket: on, off, with another mean,
 * also while threads allocate; the raw samples that it answers with. Random numbers are seeded; the
 * bounds are five standard deviations.
 */
#include <pthread.h>
#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/limit.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <sheaf/trim.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/control.h"
#include "kit/guarded.h"
#include "kit/hooks.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"

#define MEAN	4096
#define SIZE	64
#define MANY	40000
#define LARGE	(3u << 20)
#define ROOM	(3u << 20)
#define TEXT	(4u << 20)
#define THREADS 3

static struct kmem_cache *asked; /* each of its calls is slow */
static char text[TEXT];
static struct capture captured;

/* The line that answers; `text` has the file. */
static const char *ask(const char *question)
{
	static char line[256];
	int peer = connect_to_self(), file;

	ask_for_file(asked, peer, question, line, sizeof(line), &file);
	*text = '\0';
	if (file >= 0) {
		ssize_t length = pread(file, text, TEXT - 1, 0);

		CHECK(length >= 0 && length < TEXT - 1);
		text[length] = '\0';
		close(file);
	}
	close(peer);
	return line;
}

static void ask_well(const char *question)
{
	const char *line = ask(question);

	if (strcmp(line, "ok\n"))
		fail_msg("%s: %s", question, line);
}

static uint64_t number_after(const char *at, const char *key)
{
	const char *found = strstr(at, key);

	CHECK(found);
	return strtoull(found + strlen(key), NULL, 10);
}

/* The sum of a number over the rows of a cache. */
static uint64_t sum(const char *cache, const char *key)
{
	char row[64];
	uint64_t n = 0;

	snprintf(row, sizeof(row), "\"cache\":\"%s\"", cache);
	for (const char *at = strstr(text, row); at; at = strstr(at + 1, row))
		n += number_after(at, key);
	return n;
}

static uint64_t square(int64_t n)
{
	return (uint64_t)(n * n);
}

/* n allocations of SIZE bytes: this many samples? The variance is not above the mean. */
static void were_sampled(uint64_t samples, unsigned int n, unsigned int mean)
{
	int64_t expected = (int64_t)n * SIZE / mean;

	if (square((int64_t)samples - expected) > 25 * (uint64_t)expected)
		fail_msg("%d samples, not %d", (int)samples, (int)expected);
}

static void use_pairs(struct kmem_cache *s, unsigned int n)
{
	while (n--)
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
}

static void off_at_first(void **state)
{
	static const char *const wrong[] = {"profile on 4095\n",	"profile on 1073741825\n",
					    "profile on 12345678901\n", "profile on -1\n",
					    "profile on x\n",		"profile on 4096 x\n",
					    "profile maybe\n",		"profile on4096\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_string_equal(ask(wrong[i]), "error profile [on [BYTES]|off]: one sample in "
						   "4096 to 1073741824 bytes\n");
	assert_string_equal(ask("profile\n"), "error it takes no samples; ask for profile on, or "
					      "start it with SHEAF_OPTIONS=profile\n");
	assert_string_equal(ask("profile off\n"), "error it takes no samples; ask for profile on, "
						  "or start it with SHEAF_OPTIONS=profile\n");
}

static void switch_for(slab_flags_t flags)
{
	const char *name = flags ? "bare" : "pairs";
	struct kmem_cache *s = make(name, SIZE, flags);
	uint64_t all;

	use_pairs(s, 100);
	ask_well("profile on 4096\n");
	hook_seed_samples(1);
	assert_int_equal(number_after(text, "{\"profile\":"), 1);
	assert_int_equal(number_after(text, "\"mean\":"), MEAN);
	assert_int_equal(number_after(text, "\"full\":"), 0);
	assert_non_null(strstr(text, "\"on\":true,"));
	use_pairs(s, MANY);
	ask_well("profile\n");
	all = sum(name, "\"all\":[");
	were_sampled(all, MANY, MEAN);
	assert_int_equal(sum(name, "\"freed\":"), all);
	assert_int_equal(sum(name, "\"live\":["), 0);
	assert_int_equal(sum(name, "\"size\":") % SIZE, 0);
	ask_well("profile off\n");
	assert_non_null(strstr(text, "\"on\":false,"));
	use_pairs(s, MANY);
	ask_well("profile\n");
	assert_int_equal(sum(name, "\"all\":["), all);
	ask_well("profile on 4096\n");
	use_pairs(s, MANY);
	ask_well("profile off\n");
	were_sampled(sum(name, "\"all\":[") - all, MANY, MEAN);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

/* SAMPLING-P1: in steady pairs, on one sheaf that was in its slot before. And without sheaves. */
static void on_and_off(void **state)
{
	(void)state;
	switch_for(0);
	switch_for(SLAB_NO_SHEAVES);
}

/* How many of [BYTES, row, thread, ms] there are for rows of this cache. */
static unsigned int listed(const char *cache)
{
	const char *rows = strstr(text, "\"rows\":["), *at = strstr(text, "\"samples\":[");
	unsigned int n = 0;
	char row[64];

	snprintf(row, sizeof(row), "\"cache\":\"%s\"", cache);
	while ((at = strchr(at + 1, '\n')) != NULL && at[1] == '[') {
		unsigned int bytes, number, thread, when;
		const char *found;
		char head[32];

		CHECK(sscanf(at + 1, "[%u,%u,%u,%u]", &bytes, &number, &thread, &when) == 4);
		snprintf(head, sizeof(head), "\n{\"stack\":%u,", number);
		found = strstr(rows, head);
		CHECK(found);
		n += !strncmp(found + strlen(head), row, strlen(row));
		if (!strncmp(found + strlen(head), row, strlen(row)))
			CHECK(bytes == SIZE && thread);
	}
	return n;
}

/* How many objects the traces of a cache have. */
static uint64_t objects_in_traces(struct kmem_cache *s)
{
	int file = memfd_create("traces", MFD_CLOEXEC);
	char head[512];
	ssize_t length;

	CHECK(file >= 0 && !kmem_cache_print_traces(s, file, SHEAF_ALLOC_TRACES, SHEAF_STATS_JSON));
	length = pread(file, head, sizeof(head) - 1, 0);
	CHECK(length > 0);
	head[length] = '\0';
	close(file);
	return number_after(head, "\"objects\": ");
}

/* Samples that are freed when the profile is off; until then their users are known. */
static void freed_later(void **state)
{
	static void *objects[MANY];
	struct kmem_cache *before = make("before", SIZE, 0), *during, *after;
	uint64_t live, bytes, newer;

	(void)state;
	ask_well("profile on 4096\n");
	during = make("during", SIZE, 0);
	hook_seed_samples(2);
	for (unsigned int i = 0; i < MANY; i++)
		objects[i] = kmem_cache_alloc(i % 2 ? before : during, GFP_KERNEL);
	ask_well("profile off\n");
	after = make("after", SIZE, 0);
	live = sum("before", "\"live\":[");
	newer = sum("during", "\"live\":[");
	bytes = sum("before", "\"size\":");
	were_sampled(live, MANY / 2, MEAN);
	were_sampled(newer, MANY / 2, MEAN);
	assert_true(bytes);
	assert_int_equal(listed("before"), live);
	assert_int_equal(listed("during"), newer);
	assert_int_equal(objects_in_traces(during), newer);
	use_pairs(after, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		kmem_cache_free(i % 2 ? before : during, objects[i]);
	ask_well("profile\n");
	assert_int_equal(sum("before", "\"live\":["), 0);
	assert_int_equal(sum("during", "\"live\":["), 0);
	assert_int_equal(sum("during", "\"freed\":"), newer);
	assert_int_equal(sum("after", "\"all\":["), 0);
	assert_int_equal(listed("before") + listed("during"), 0);
	assert_true(all_freed(before) && all_freed(during));
	kmem_cache_destroy(before);
	kmem_cache_destroy(during);
	kmem_cache_destroy(after);
}

/* Each of them is a sample. */
static void large_blocks(void **state)
{
	void *blocks[4];

	(void)state;
	blocks[0] = kmalloc(LARGE, GFP_KERNEL);
	ask_well("profile on 4096\n");
	for (int i = 1; i < 4; i++)
		assert_non_null(blocks[i] = kmalloc(LARGE, GFP_KERNEL));
	kfree(blocks[1]);
	ask_well("profile off\n");
	assert_int_equal(sum("kmalloc-large", "\"live\":["), 2);
	assert_int_equal(sum("kmalloc-large", "\"live\":[2,"), 2 * (uint64_t)LARGE);
	kfree(blocks[0]);
	kfree(blocks[2]);
	ask_well("profile\n");
	assert_int_equal(sum("kmalloc-large", "\"live\":["), 1);
	kfree(blocks[3]);
	ask_well("profile\n");
	assert_int_equal(sum("kmalloc-large", "\"live\":["), 0);
	assert_int_equal(sum("kmalloc-large", "\"freed\":"), 3);
}

/* Until their grace period has passed, samples are in use; but they were freed before that. */
static void retired_samples(void **state)
{
	struct item {
		struct kvfree_rcu_head head;
		char rest[SIZE - sizeof(struct kvfree_rcu_head)];
	};
	struct kmem_cache *s = make("retired", sizeof(struct item), 0);
	static struct item *objects[MANY];
	uint64_t live, blocks, lifetimes;
	struct item *block;

	(void)state;
	ask_well("profile\n");
	lifetimes = sum("kmalloc-large", "\"lifetime_ms\":");
	ask_well("profile on 4096\n");
	for (unsigned int i = 0; i < MANY; i++)
		assert_non_null(objects[i] = kmem_cache_alloc(s, GFP_KERNEL));
	assert_non_null(block = kmalloc(LARGE, GFP_KERNEL));
	clock_pass_ms(10000);
	for (unsigned int i = 0; i < MANY; i++)
		kfree_rcu(objects[i], head);
	kfree_rcu(block, head);
	capture_begin(&captured); /* such a grace period is reported */
	clock_pass_ms(1000000000);
	ask_well("profile off\n");
	live = sum("retired", "\"live\":[");
	blocks = sum("kmalloc-large", "\"live\":[");
	were_sampled(live, MANY, MEAN);
	assert_int_equal(listed("retired"), live);
	assert_int_equal(blocks, 1);
	kvfree_rcu_barrier();
	ask_well("profile\n");
	capture_end(&captured);
	assert_int_equal(sum("retired", "\"live\":["), 0);
	assert_in_range(sum("retired", "\"lifetime_ms\":"), live * 10000, live * 500000000);
	lifetimes = sum("kmalloc-large", "\"lifetime_ms\":") - lifetimes;
	assert_in_range(lifetimes, 10000, 500000000);
	kmem_cache_destroy(s);
}

/* Samples that were taken with another mean are not listed. */
static void another_mean(void **state)
{
	struct kmem_cache *s = make("mean", SIZE, 0);

	(void)state;
	ask_well("profile on 4096\n");
	use_pairs(s, MANY);
	ask_well("profile on 8192\n");
	hook_seed_samples(3);
	assert_int_equal(sum("mean", "\"all\":["), 0);
	use_pairs(s, 2 * MANY);
	ask_well("profile off\n");
	assert_int_equal(number_after(text, "\"mean\":"), 8192);
	were_sampled(sum("mean", "\"all\":["), 2 * MANY, 8192);
	kmem_cache_destroy(s);
}

/* All rows of this cache, where MANY / 2 objects were allocated, are of this group. */
static void has_group(const char *cache, const char *group)
{
	uint64_t all = sum(cache, "\"all\":[");
	char both[128];

	snprintf(both, sizeof(both), "%s\",\"group\":\"%s", cache, group);
	were_sampled(all, MANY / 2, MEAN);
	assert_int_equal(sum(both, "\"all\":["), all);
}

/* Large blocks of the thread's group, of another one, and of none. */
static void blocks_have_groups(void **state)
{
	struct kmem_group *a = kmem_group_create("a \"group\"", NULL, NULL);
	struct kmem_group *b = kmem_group_create("b", NULL, NULL);
	void *blocks[3];

	(void)state;
	assert_true(a && b);
	assert_null(kmem_group_set_current(a));
	ask_well("profile on 4096\n");
	blocks[0] = kmalloc(LARGE, GFP_KERNEL);
	blocks[1] = kmalloc_charged(LARGE, GFP_KERNEL, b);
	kmem_group_restore_current(NULL);
	blocks[2] = kmalloc(LARGE, GFP_KERNEL);
	ask_well("profile off\n");
	assert_int_equal(sum("kmalloc-large\",\"group\":\"a \\\"group\\\"", "\"live\":["), 1);
	assert_int_equal(sum("kmalloc-large\",\"group\":\"b", "\"live\":["), 1);
	assert_int_equal(sum("kmalloc-large", "\"live\":["), 3);
	for (int i = 0; i < 3; i++)
		kfree(blocks[i]);
	kmem_group_put(a);
	kmem_group_put(b);
}

/* Samples count for the limit as other objects do: large ones while they are in use, small ones
 * from their first use on. */
static void samples_count_for_limits(void **state)
{
	static const unsigned int sizes[] = {4096, 32768, 500000};
	static void *objects[MANY];
	struct sheaf_stats stats;

	(void)state;
	capture_begin(&captured); /* samples are left out */
	ask_well("profile on 4096\n");
	for (int i = 0; i < 3; i++) {
		struct kmem_cache *s = make("limited", sizes[i], 0);
		unsigned int n = 0, most;

		sheaf_trim(0);
		sheaf_stats(&stats);
		most = (unsigned int)((ROOM + stats.free_bytes + stats.mapped_bytes) / sizes[i]);
		assert_int_equal(sheaf_set_limits(0, stats.held_bytes + ROOM), 0);
		while (n <= most && (objects[n] = kmem_cache_alloc(s, GFP_KERNEL)) != NULL)
			memset(objects[n++], 1, sizes[i]);
		assert_in_range(n, ROOM / sizes[i] / 4, most);
		sheaf_stats(&stats);
		assert_int_equal(stats.held_bytes,
				 stats.used_bytes + stats.free_bytes + stats.mapped_bytes);
		while (n)
			kmem_cache_free(s, objects[--n]);
		assert_int_equal(sheaf_set_limits(0, 0), 0);
		kmem_cache_destroy(s);
	}
	ask_well("profile off\n");
	capture_end(&captured);
}

/* A freed sample of 64 KiB and more has no memory. */
static void large_samples_return_memory(void **state)
{
	struct kmem_cache *s = make("returns", 1 << 18, 0);
	unsigned char pages[(1 << 18) / 4096];
	char *object;

	(void)state;
	ask_well("profile on 4096\n");
	object = kmem_cache_alloc(s, GFP_KERNEL);
	assert_non_null(object);
	memset(object, 1, 1 << 18);
	ask_well("profile off\n");
	assert_int_equal(sum("returns", "\"live\":["), 1);
	assert_int_equal(mincore(object, 1 << 18, pages), 0);
	assert_true(pages[0] & 1);
	kmem_cache_free(s, object);
	assert_int_equal(mincore(object, 1 << 18, pages), 0);
	for (size_t i = 0; i < (1u << 18) / (size_t)sysconf(_SC_PAGESIZE); i++)
		assert_false(pages[i] & 1);
	kmem_cache_destroy(s);
}

static void charged_objects(void **state)
{
	struct kmem_group *g = kmem_group_create("payer", NULL, NULL);
	struct kmem_cache *s = make("charged", SIZE, SLAB_ACCOUNT), *late = make("late", SIZE, 0);
	static void *objects[MANY];

	(void)state;
	assert_non_null(g);
	assert_null(kmem_group_set_current(g));
	for (int round = 0; round < 4; round++) {
		ask_well(round % 2 ? "profile off\n" : "profile on 4096\n");
		for (unsigned int i = 0; i < MANY; i++) {
			struct kmem_cache *from = i % 2 ? s : late;

			if (round)
				kmem_cache_free(from, objects[i]);
			objects[i] = kmem_cache_alloc(from, GFP_KERNEL | __GFP_ACCOUNT);
			assert_non_null(objects[i]);
		}
		if (round == 1)
			has_group("charged", "payer"), has_group("late", "payer");
		assert_int_equal(kmem_group_verify(), 0);
	}
	for (unsigned int i = 0; i < MANY; i++)
		kmem_cache_free(i % 2 ? s : late, objects[i]);
	assert_int_equal(kmem_group_verify(), 0);
	kmem_cache_destroy(s);
	kmem_cache_destroy(late);
	kmem_group_restore_current(NULL);
	kmem_group_put(g);
}

/* --- threads ---------------------------------------------------------------------------------- */

static uint32_t stop;

static void *allocate(void *s)
{
	void *objects[200];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 200; i++)
			CHECK((objects[i] = kmem_cache_alloc(s, GFP_KERNEL)) != NULL);
		for (int i = 0; i < 200; i++)
			kmem_cache_free(s, objects[i]);
	}
	return NULL;
}

static void while_threads_allocate(void **state)
{
	struct kmem_cache *s = make("threads", SIZE, 0);
	pthread_t threads[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, allocate, s));
	for (int i = 0; i < 10; i++) {
		ask_well("profile on 4096\n");
		ask_well("profile off\n");
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ask_well("profile\n");
	assert_int_equal(sum("threads", "\"live\":["), 0);
	assert_int_equal(sum("threads", "\"freed\":"), sum("threads", "\"all\":["));
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_true(all_freed(s));
	kmem_cache_destroy(s);
}

/* --- at exit ---------------------------------------------------------------------------------- */

/* The part of this name, in a new image of the program. Samples without closed pages need no
 * handlers. */
static void leave_objects(void)
{
	struct kmem_cache *few, *most;
	struct sigaction before, now;

	CHECK(sigaction(SIGSEGV, NULL, &before) == 0);
	few = make("few", 1024, 0);
	most = make("most", 4096, 0);

	for (int i = 0; i < 1000; i++)
		CHECK(kmem_cache_alloc(few, GFP_KERNEL) && kmem_cache_alloc(most, GFP_KERNEL));
	CHECK(sigaction(SIGSEGV, NULL, &now) == 0);
	CHECK(now.sa_handler == before.sa_handler);
}

static void leave(void)
{
	CHECK(setenv("SHEAF_OPTIONS", "profile_leaks;profile=4096", 1) == 0);
	start_again("leave");
}

/* 64 objects, each of them a sample, fill one half of the addresses. */
static void use_all_addresses(void)
{
	struct kmem_cache *s = make("most", 65536, 0);

	for (int i = 0; i < 100; i++)
		CHECK(kmem_cache_alloc(s, GFP_KERNEL));
}

/* A mean of the profile is not one of slab_debug=S. */
static void switch_sampled(void)
{
	struct kmem_cache *s = make("sampled", 1024, 0);

	CHECK(!strcmp(ask("profile on 1073741824\n"), "ok\n"));
	CHECK(!is_guarded(kmem_cache_alloc(s, GFP_KERNEL)));
	CHECK(!strcmp(ask("profile off\n"), "ok\n"));
	for (int i = 0; i < 100; i++)
		CHECK(is_guarded(kmem_cache_alloc(s, GFP_KERNEL)));
}

static void be_sampled(void)
{
	CHECK(setenv("SHEAF_OPTIONS", "control;slab_debug=S;slab_sample=1", 1) == 0);
	start_again("sampled");
}

static void slab_sample_stays(void **state)
{
	int status = in_child(be_sampled);

	(void)state;
	needs_image(status);
	assert_int_equal(status, 0);
}

/* Of 20 objects, each a sample with a chance of 0.9997. */
static void free_cleared(void)
{
	struct kmem_cache *s = make("cleared", 32768, 0);

	for (int i = 0; i < 20; i++) {
		char *object = kmem_cache_alloc(s, GFP_KERNEL);

		CHECK(object);
		hook_leave_tools();
		memset(object, 1, 32768);
		kmem_cache_free(s, object);
		for (int at = 0; at < 32768; at++)
			CHECK(!((volatile char *)object)[at]);
	}
}

static void clear(void)
{
	CHECK(setenv("SHEAF_OPTIONS", "profile=4096;init_on_free=1", 1) == 0);
	start_again("cleared");
}

static void freed_samples_are_cleared(void **state)
{
	int status = in_child(clear);

	(void)state;
	needs_image(status);
	assert_int_equal(status, 0);
}

static void fill(void)
{
	CHECK(setenv("SHEAF_OPTIONS", "profile_leaks;profile=4096;slab_guard=8", 1) == 0);
	start_again("fill");
}

static void are_near(unsigned long long found, unsigned long long expected)
{
	assert_in_range(found, expected * 3 / 4, expected * 5 / 4);
}

/* 1000 objects of 4096 bytes give 632 samples, and their estimate has an error of 3 %. */
static void leaks_are_reported_at_exit(void **state)
{
	unsigned long long bytes, objects, samples;
	const char *few, *most;
	int status;

	(void)state;
	capture_begin(&captured);
	status = in_child(leave);
	capture_end(&captured);
	needs_image(status);
	assert_int_equal(status, 0);
	most = strstr(captured.text, "libsheaf: LEAK most: about ");
	few = strstr(captured.text, "libsheaf: LEAK few: about ");
	assert_true(most && few && most < few);
	assert_int_equal(sscanf(most,
				"libsheaf: LEAK most: about %llu bytes in %llu objects in use "
				"at exit, by %llu samples of this stack:\n",
				&bytes, &objects, &samples),
			 3);
	are_near(bytes, 4096000);
	are_near(objects, 1000);
	are_near(samples, 632);
	assert_int_equal(
		sscanf(captured.text, "libsheaf: LEAK: about %llu bytes in use at exit", &bytes),
		1);
	are_near(bytes, 4096000 + 1024000);
}

static void full_addresses_are_reported(void **state)
{
	int status;

	(void)state;
	capture_begin(&captured);
	status = in_child(fill);
	capture_end(&captured);
	needs_image(status);
	assert_int_equal(status, 0);
	assert_non_null(strstr(captured.text,
			       "libsheaf: profile: all addresses for samples of this size are in "
			       "use, or there is no memory for them; further samples are "
			       "left out until some are freed, so figures are too low. Set more "
			       "MiB of addresses than 8 with slab_guard=N (at most a sixteenth of "
			       "ulimit -v), or a larger mean with profile=N\n"));
	assert_null(strstr(strstr(captured.text, "profile: all") + 1, "profile: all"));
	assert_non_null(strstr(captured.text, " by 64 samples; 36 more were left out\n"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(off_at_first),
		cmocka_unit_test(on_and_off),
		cmocka_unit_test(freed_later),
		cmocka_unit_test(large_blocks),
		cmocka_unit_test(retired_samples),
		cmocka_unit_test(another_mean),
		cmocka_unit_test(blocks_have_groups),
		cmocka_unit_test(charged_objects),
		cmocka_unit_test(samples_count_for_limits),
		cmocka_unit_test(large_samples_return_memory),
		cmocka_unit_test(while_threads_allocate),
		cmocka_unit_test(leaks_are_reported_at_exit),
		cmocka_unit_test(full_addresses_are_reported),
		cmocka_unit_test(slab_sample_stays),
		cmocka_unit_test(freed_samples_are_cleared),
	};

	if (argc > 1 && !strcmp(argv[1], "leave"))
		leave_objects();
	else if (argc > 1 && !strcmp(argv[1], "fill"))
		use_all_addresses();
	else if (argc > 1 && !strcmp(argv[1], "cleared"))
		free_cleared();
	if (argc > 1 && strcmp(argv[1], "sampled"))
		return 0;
	CHECK(sheaf_rcu_register(&by_hand_ops) == 0);
	asked = kmem_cache_create("asked", SIZE, NULL, SLAB_STORE_USER);
	CHECK(asked);
	if (argc > 1) {
		switch_sampled();
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
