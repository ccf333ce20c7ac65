/* SPDX-License-Identifier: MIT */
/*
 * Retiring in any context: where the object waits, what is refused, who waits for it; and in signal
 * handlers that interrupt ordinary calls of the same kind. At each step: sim/nested.c.
 */
#include <errno.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"

enum {
	MANY = 200,
	MOST = 10000
};

struct item {
	uint64_t stamp[3];
	struct kvfree_rcu_head rcu;
};

static struct capture captured;
static const slab_flags_t kinds[] = {0, SLAB_NO_SHEAVES};

static uint64_t stamp_of(const struct item *item)
{
	return (uintptr_t)item ^ 0x5a5a;
}

static struct item *new_item(struct kmem_cache *s)
{
	struct item *item = kmem_cache_alloc(s, GFP_KERNEL);

	CHECK(item);
	item->stamp[0] = item->stamp[2] = stamp_of(item);
	return item;
}

static bool is_untouched(const struct item *item)
{
	return item->stamp[0] == stamp_of(item) && item->stamp[2] == stamp_of(item);
}

static void nothing_is_left(struct kmem_cache *s)
{
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(look(s).objects_in_use, 0);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	assert_int_equal(capture_end(&captured), 0);
}

static int retire(struct kmem_cache *s, struct item *item, bool by_head)
{
	if (!by_head)
		return kmem_cache_free_rcu_nolock(s, item);
	kfree_rcu_nolock(item, rcu);
	return 0;
}

/* As the first call of the cache that retires, and after an ordinary one. */
static void until_a_grace_period_has_passed(void **state)
{
	static struct item *items[MANY];

	(void)state;
	for (int way = 0; way < 8; way++) {
		struct kmem_cache *s = make("until", sizeof(struct item), kinds[way % 2]);

		if (way & 4)
			kfree_rcu(new_item(s), rcu);
		for (int i = 0; i < MANY; i++)
			items[i] = new_item(s);
		errno = 4242;
		for (int i = 0; i < MANY; i++)
			assert_int_equal(retire(s, items[i], way & 2), 0);
		assert_int_equal(errno, 4242);
		/* New objects are others. */
		for (int i = 0; i < MANY; i++)
			kmem_cache_free(s, new_item(s));
		for (int i = 0; i < MANY; i++)
			assert_true(is_untouched(items[i]));
		way & 4 ? kvfree_rcu_barrier() : kvfree_rcu_barrier_on_cache(s);
		nothing_is_left(s);
	}
	assert_int_equal(library().rcu_bytes, 0);
}

/* By callbacks alone, which an ordinary call starts. */
static void without_a_barrier(void **state)
{
	struct kmem_cache *s = make("callbacks", sizeof(struct item), SLAB_NO_SHEAVES);
	struct item *items[2] = {new_item(s), new_item(s)};
	unsigned int before;

	(void)state;
	by_hand_pass();
	before = by_hand.calls;
	for (int i = 0; i < 2; i++)
		assert_int_equal(retire(s, items[i], i), 0);
	assert_int_equal(by_hand.calls, before);
	assert_int_equal(look(s).objects_in_use, 2);
	kmem_cache_shrink(s);
	assert_true(by_hand.calls > before);
	for (int i = 0; i < 10 && look(s).objects_in_use; i++) {
		clock_pass_ms(100);
		by_hand_pass();
	}
	nothing_is_left(s);
}

/* ANY-K3: those that get their number only when others have passed. */
static void barriers_wait_for_those_linked_last(void **state)
{
	struct kmem_cache *s = make("linked", sizeof(struct item), SLAB_NO_SHEAVES);

	(void)state;
	for (int all = 0; all < 2; all++) {
		retire(s, new_item(s), true);
		kmem_cache_shrink(s);
		/* The first callback only gives it a number. */
		by_hand_pass();
		assert_int_equal(look(s).objects_in_use, 1);
		retire(s, new_item(s), true);
		all ? kvfree_rcu_barrier() : kvfree_rcu_barrier_on_cache(s);
		assert_int_equal(look(s).objects_in_use, 0);
	}
	nothing_is_left(s);
}

static void destroying_waits(void **state)
{
	(void)state;
	for (int way = 0; way < 4; way++) {
		struct kmem_cache *s = make("destroyed", sizeof(struct item), kinds[way % 2]);

		for (int i = 0; i < 100; i++)
			assert_int_equal(retire(s, new_item(s), way & 2), 0);
		capture_begin(&captured);
		kmem_cache_destroy(s);
		assert_int_equal(capture_end(&captured), 0);
	}
}

static struct kmem_cache *inherited;

static void finish_inherited(void)
{
	retire(inherited, new_item(inherited), true);
	kvfree_rcu_barrier_on_cache(inherited);
	CHECK(look(inherited).objects_in_use == 0);
	CHECK(kmem_cache_verify(inherited) == 0);
}

/* Some wait with a number, some have none. */
static void pending_across_fork(void **state)
{
	struct kmem_cache *s = inherited = make("forked", sizeof(struct item), SLAB_NO_SHEAVES);

	(void)state;
	for (int i = 0; i < 20; i++)
		assert_int_equal(retire(s, new_item(s), i % 4), 0);
	kmem_cache_shrink(s);
	by_hand_pass();
	for (int i = 0; i < 20; i++)
		assert_int_equal(retire(s, new_item(s), i % 4), 0);
	assert_int_equal(in_child(finish_inherited), 0);
	assert_true(look(s).objects_in_use > 0);
	kvfree_rcu_barrier();
	nothing_is_left(s);
}

/* Without a head there is room for many, and what is refused stays in use. */
static void refused_without_room(void **state)
{
	struct kmem_cache *s = make("refused", sizeof(struct item), SLAB_NO_SHEAVES);
	struct item *item = NULL;
	int n, result = 0;

	(void)state;
	for (n = 0; !result && n < MOST; n++)
		result = kmem_cache_free_rcu_nolock(s, item = new_item(s));
	assert_in_range(n, 250, MOST - 1);
	assert_int_equal(result, -EAGAIN);
	assert_true(is_untouched(item));
	assert_int_equal(look(s).objects_in_use, n);
	kvfree_rcu_barrier();
	assert_int_equal(look(s).objects_in_use, 1);
	assert_int_equal(kmem_cache_free_rcu_nolock(s, item), 0);
	kvfree_rcu_barrier();
	nothing_is_left(s);
}

/* That the shared sheaves are full refuses no object for which the CPU's sheaf has room. */
static void room_in_the_sheaf_is_enough(void **state)
{
	struct kmem_cache *bare, *s;
	struct item *left, *item;
	int n = 0;

	(void)state;
	needs(NEED_SHEAVES);
	/* There an object gets its place before its mark changes. */
	if (has_option("hardened"))
		skip();
	pin(0);
	bare = make("bare", sizeof(struct item), SLAB_NO_SHEAVES);
	s = make("room", sizeof(struct item), 0);
	item = new_item(s);
	kvfree_rcu_barrier();
	kfree_rcu(new_item(s), rcu);
	do
		left = new_item(bare);
	while (!kmem_cache_free_rcu_nolock(bare, left) && ++n < MOST);
	assert_in_range(n, 1, MOST - 1);
	assert_int_equal(kmem_cache_free_rcu_nolock(s, item), 0);
	kmem_cache_free(bare, left);
	kvfree_rcu_barrier();
	nothing_is_left(bare);
	nothing_is_left(s);
}

static void wrong_pointers(void **state)
{
	struct kmem_cache *s = make("mine", sizeof(struct item), 0);
	struct item *large = kmalloc(KMALLOC_MAX_CACHE_SIZE + 1, GFP_KERNEL);
	struct kmem_cache *other = make("other", sizeof(struct item), 0);
	struct item foreign, *item = new_item(other);

	(void)state;
	kfree_rcu_nolock((struct item *)NULL, rcu);
	assert_int_equal(kmem_cache_free_rcu_nolock(s, NULL), 0);
	capture_begin(&captured);
	kfree_rcu_nolock(&foreign, rcu);
	kfree_rcu_nolock(large, rcu);
	assert_int_equal(kmem_cache_free_rcu_nolock(s, &foreign), -EINVAL);
	assert_int_equal(kmem_cache_free_rcu_nolock(s, item), -EINVAL);
	assert_int_equal(kmem_cache_free_rcu_nolock(NULL, item), -EINVAL);
	capture_end(&captured);
	assert_int_equal(captured_reports(&captured), 5);
	/* What was refused is in use, and is still the caller's. */
	assert_null(strstr(captured.text, "leaked"));
	kfree(large);
	kmem_cache_free(other, item);
	nothing_is_left(other);
	nothing_is_left(s);
}

/* Memory by size, and a head of two words. */
static void blocks(void **state)
{
	struct two {
		char text[100];
		struct sheaf_rcu_head rcu;
	} *two = kmalloc(sizeof(*two), GFP_KERNEL);
	struct item *one = kmalloc(sizeof(*one), GFP_KERNEL);

	(void)state;
	kfree_rcu_nolock(two, rcu);
	kfree_rcu_nolock(one, rcu);
	kvfree_rcu_barrier();
	assert_int_equal(library().rcu_bytes, 0);
}

/* --- in handlers --- */

static struct {
	struct kmem_cache *s[2];
	unsigned int n, retired;
	bool now;
} handled;

static void not_in_a_handler(void)
{
	CHECK(!handled.now);
}

static void on_signal(int number)
{
	unsigned int n = handled.n++;
	struct kmem_cache *s = handled.s[n % 2];
	struct item *item;

	(void)number;
	handled.now = true;
	item = kmem_cache_alloc_nolock(s, 0);
	if (item) {
		item->stamp[0] = stamp_of(item);
		if (!retire(s, item, n & 2))
			handled.retired++;
		else
			kmem_cache_free_nolock(s, item);
	}
	handled.now = false;
}

/* A signal within 30 microseconds, if the one before has been handled. */
static void interrupt_soon(timer_t timer, unsigned int *nr_sent)
{
	struct itimerspec once = {.it_value.tv_nsec = 1 + *nr_sent * 7919 % 30000};

	if (handled.n != *nr_sent)
		return;
	++*nr_sent;
	CHECK(timer_settime(timer, 0, &once, NULL) == 0);
}

static void retire_in_handlers(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
	unsigned int nr_sent = 0;
	timer_t timer;

	for (int i = 0; i < 2; i++) {
		handled.s[i] = make(i ? "bare" : "handled", sizeof(struct item), kinds[i]);
		kmem_cache_free(handled.s[i], new_item(handled.s[i]));
	}
	by_hand.in_call = not_in_a_handler;
	signal(SIGUSR2, on_signal);
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	for (unsigned int i = 0; i < 20000 || handled.retired < 100; i++) {
		struct kmem_cache *s = handled.s[i & 1];

		interrupt_soon(timer, &nr_sent);
		if (i & 2)
			kfree_rcu(new_item(s), rcu);
		else
			kmem_cache_free_rcu(s, new_item(s));
		/* The thread sanitizer runs handlers only in calls of libc. */
		if (i % 64 == 0)
			usleep(1);
		if (i % 100 == 0)
			by_hand_pass();
		if (i % 2000 == 0)
			kvfree_rcu_barrier();
	}
	while (handled.n < nr_sent)
		usleep(1);
	timer_delete(timer);
	for (int i = 0; i < 2; i++) {
		kvfree_rcu_barrier_on_cache(handled.s[i]);
		CHECK(kmem_cache_verify(handled.s[i]) == 0);
		CHECK(look(handled.s[i]).objects_in_use == 0);
		kmem_cache_destroy(handled.s[i]);
	}
}

static void handlers(void **state)
{
	(void)state;
	assert_int_equal(in_child(retire_in_handlers), 0);
}

static void begin_unregistered(void)
{
	struct item *item = kmalloc(sizeof(*item), GFP_KERNEL);

	kfree_rcu_nolock(item, rcu);
}

/* Before a provider is registered. */
static void without_a_provider(void **state)
{
	int status;

	(void)state;
	kfree(kmalloc(100, GFP_KERNEL));
	capture_begin(&captured);
	status = in_child(begin_unregistered);
	capture_end(&captured);
	assert_true(status != 0);
	assert_non_null(strstr(captured.text, "no RCU provider"));
	assert_int_equal(sheaf_rcu_register(&by_hand_ops), 0);
}

int main(void)
{
	clock_stands = true;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_provider),
		cmocka_unit_test(until_a_grace_period_has_passed),
		cmocka_unit_test(without_a_barrier),
		cmocka_unit_test(barriers_wait_for_those_linked_last),
		cmocka_unit_test(destroying_waits),
		cmocka_unit_test(pending_across_fork),
		cmocka_unit_test(refused_without_room),
		cmocka_unit_test(room_in_the_sheaf_is_enough),
		cmocka_unit_test(wrong_pointers),
		cmocka_unit_test(blocks),
		cmocka_unit_test(handlers),
	};

	return cmocka_run_group_tests_name("nolock-rcu", tests, NULL, NULL);
}
