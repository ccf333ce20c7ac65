/* SPDX-License-Identifier: MIT */
/*
 * Questions through the control socket: without memory for the answer, on a small stack, by a user
 * without an ID here.
 */
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <sheaf/group.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kit/check.h"
#include "kit/clock.h"
#include "kit/control.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"

#define CACHES 3

/* All caches can be destroyed after the first of them could not be printed: none is pinned. */
static void ask_without_memory(void)
{
	struct kmem_cache *s[CACHES];
	char name[32], answer[128];
	int file;

	for (int i = 0; i < CACHES; i++) {
		snprintf(name, sizeof(name), "asked %d", i);
		s[i] = kmem_cache_create(name, 64, NULL, SLAB_STORE_USER);
		CHECK(s[i]);
		kmem_cache_free(s[i], kmem_cache_alloc(s[i], GFP_KERNEL));
	}
	file = connect_to_self();
	no_more_memory();
	ask_self(s[0], file, "traces alloc text\tasked*\n", answer, sizeof(answer));
	CHECK(!strcmp(answer, "error Cannot allocate memory\n"));
	for (int i = 0; i < CACHES; i++)
		kmem_cache_destroy(s[i]);
}

static void no_memory_for_traces(void **state)
{
	(void)state;
	assert_int_equal(in_child(ask_without_memory), 0);
}

/* --- a small stack ---------------------------------------------------------------------------- */

/* How much of a thread's stack the library may use. A thread with PTHREAD_STACK_MIN has 13 KiB. */
#if HAS_TSAN || HAS_ASAN || !defined(__OPTIMIZE__)
#define ROOM ((size_t)32 << 10) /* for what is added to each frame */
#else
#define ROOM ((size_t)8 << 10)
#endif

#define STACK ((size_t)1 << 20) /* nothing is mapped in its lower half */

static void *ask_all(void *s)
{
	static const char *const questions[] = {
		"traces alloc text\n", "traces free json\n", "validate\n",     "groups\n",
		"debug +T\n",	       "debug -T\n",	     "tune decay=5\n", "tune limit=0\t*\n",
		"profile on 4096\n",   "profile\n",	     "profile off\n"};
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char answer[32];

	for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++) {
		int file = connect_to_self();

		clock_pass_ms(60 * 1000); /* rounds of housekeeping look at all that changes */
		ask_self(s, file, questions[i], answer, sizeof(answer));
		CHECK(!strcmp(answer, "ok\n"));
		close(file);
	}
	CHECK(sheaf_stats_print(null, SHEAF_STATS_TEXT) == 0);
	CHECK(sheaf_stats_print(null, SHEAF_STATS_JSON) == 0);
	CHECK(sheaf_stats_print(null, SHEAF_STATS_PROMETHEUS) == 0);
	return NULL;
}

static void *use_with_room(void *stack)
{
	char *lowest = (char *)stack + STACK / 2;
	volatile char *used = alloca((size_t)((char *)__builtin_frame_address(0) - lowest) - ROOM);
	struct kmem_cache *s;

	*used = 0;
	s = make_used();
	CHECK(kmem_group_create("group", NULL, NULL));
	return ask_all(s);
}

static void ask_on_small_stack(void)
{
	char *stack = mmap(NULL, STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t small;
	pthread_t thread;

	CHECK(stack != MAP_FAILED &&
	      mprotect(stack + STACK / 2, STACK / 2, PROT_READ | PROT_WRITE) == 0);
	CHECK(dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO) >= 0); /* TRACE lines */
	pthread_attr_init(&small);
	CHECK(pthread_attr_setstack(&small, stack, STACK) == 0);
	CHECK(pthread_create(&thread, &small, use_with_room, stack) == 0);
	pthread_join(thread, NULL);
}

static void a_small_stack_is_enough(void **state)
{
	(void)state;
	assert_int_equal(in_child(ask_on_small_stack), 0);
}

/* --- users without a number ------------------------------------------------------------------- */

#define NOT_ALLOWED 2

static void ask_without_number(void)
{
	struct kmem_cache *s;
	char answer[128];

	if (unshare(CLONE_NEWUSER))
		_exit(NOT_ALLOWED);
	s = make_used();
	ask_self(s, connect_to_self(), "validate\n", answer, sizeof(answer));
	CHECK(!strcmp(answer, "error it belongs to another user, or you have no number in its user "
			      "namespace: ask from there\n"));
}

static void users_without_number_get_none(void **state)
{
	int status = in_child(ask_without_number);

	(void)state;
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_ALLOWED) {
		print_message("the system allows no user namespaces\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_memory_for_traces),
		cmocka_unit_test(a_small_stack_is_enough),
		cmocka_unit_test(users_without_number_get_none),
	};

	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
