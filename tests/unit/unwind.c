/* SPDX-License-Identifier: MIT */
/*
 * Walks of the stack by rows of unwind tables that are kept, against the system's unwinder: in
 * functions with and without a frame pointer, below others' code, in threads and signal handlers.
 * And the number of the thread, which is stored beside a stack.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include "kit/process.h"
#include "kit/unit.h"
#include "os/atomic.h"
#include "os/linux/unwind.h"
#include "os/machine.h"
#include "os/stack.h"

#ifndef UNWIND_HERE
/* A processor without rows. */
#undef DLFO_STRUCT_HAS_EH_DBASE
#define UNWIND_HERE(frame) memset(&(frame), 0, sizeof(frame))
#endif

enum {
	MOST = 64
};

struct frames {
	uintptr_t ip[MOST];
	unsigned int n;
};

static unsigned int compared;
static bool in_signal;

static _Unwind_Reason_Code add(struct _Unwind_Context *context, void *argument)
{
	struct frames *frames = argument;

	if (!_Unwind_GetIP(context) || frames->n == MOST)
		return _URC_END_OF_STACK;
	frames->ip[frames->n++] = _Unwind_GetIP(context);
	return _URC_NO_REASON;
}

/* os_stack_walk() asks the system's unwinder when rows do not know: here they must. */
static void check_rows(struct unwind_frame frame, const uintptr_t *expected, unsigned int n)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
	for (unsigned int i = 0; i < n; i++) {
		assert_int_equal(unwind_step(&frame), UNWIND_STEP);
		assert_int_equal(frame.pc, expected[i]);
	}
	if (n < MOST / 2)
		assert_int_equal(unwind_step(&frame), UNWIND_END);
#else
	(void)frame, (void)expected, (void)n;
#endif
}

/* Both walks agree from the calling function's caller on. */
static __attribute__((noinline)) void compare(void)
{
	uintptr_t caller = (uintptr_t)__builtin_return_address(0);
	struct frames expected = {.n = 0}, found = {.n = 0};
	unsigned int e = 0, f = 0;
	struct unwind_frame here;

	UNWIND_HERE(here);
	_Unwind_Backtrace(add, &expected);
	found.n = os_stack_walk(found.ip, MOST);
	if (!found.n)
		skip(); /* a C library without _dl_find_object() */
	while (e < expected.n && expected.ip[e] != caller)
		e++;
	while (f < found.n && found.ip[f] != caller)
		f++;
	assert_true(expected.n - e >= 2);
	if (expected.n < MOST && found.n < MOST)
		assert_int_equal(found.n - f, expected.n - e);
	if (!in_signal)
		check_rows(here, expected.ip + e, expected.n - e);
	for (; e < expected.n && f < found.n; e++, f++)
		assert_int_equal(found.ip[f], expected.ip[e]);
	os_fetch_add(&compared, 1);
}

static __attribute__((noinline)) int recurse(int depth)
{
	volatile int here = depth;

	if (depth)
		here += recurse(depth - 1);
	else
		compare();
	return here;
}

/* A frame whose size differs from call to call: one row serves all. */
static __attribute__((noinline)) int with_room(size_t size)
{
	volatile char *room = alloca(size);

	room[0] = 1;
	recurse(1);
	return room[0];
}

static __attribute__((noinline)) void many_arguments(long a, long b, long c, long d, long e, long f,
						     long g, long h, long i, long j)
{
	volatile long sum = a + b + c + d + e + f + g + h + i + j;

	compare();
	(void)sum;
}

static int by_value(const void *a, const void *b)
{
	compare();
	return *(const int *)a - *(const int *)b;
}

static void *in_thread(void *unused)
{
	recurse(3);
	return unused;
}

static void in_handler(int number)
{
	(void)number;
	in_signal = true;
	recurse(2);
	in_signal = false;
}

static void agrees(void **state)
{
	int numbers[] = {3, 1, 2, 5, 4};

	(void)state;
	/* Rows are read in the first round, and were kept in the others. */
	for (int round = 0; round < 3; round++) {
		for (int depth = 0; depth < 20; depth++)
			recurse(depth);
		recurse(100);
		for (size_t size = 1; size < 5000; size += 600)
			with_room(size);
		many_arguments(1, 2, 3, 4, 5, 6, 7, 8, 9, round);
		qsort(numbers, 5, sizeof(int), by_value);
	}
	assert_true(compared > 3 * 25);
}

static void in_threads(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) {
		pthread_t threads[3];

		for (int i = 0; i < 3; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, in_thread, NULL), 0);
		for (int i = 0; i < 3; i++)
			pthread_join(threads[i], NULL);
	}
}

static void *check_number(void *unused)
{
	assert_int_equal(os_thread(), syscall(SYS_gettid));
	return unused;
}

static void check_number_in_child(void)
{
	if (os_thread() != syscall(SYS_gettid))
		_exit(1);
}

/* What tracks store of a thread is read from memory of the C library's, if possible. */
static void thread_numbers(void **state)
{
	pthread_t thread;

	(void)state;
	if (!os.nr_rows)
		os_init();
	for (int i = 0; i < 3; i++) {
		check_number(NULL);
		assert_int_equal(pthread_create(&thread, NULL, check_number, NULL), 0);
		pthread_join(thread, NULL);
	}
	assert_int_equal(in_child(check_number_in_child), 0);
	os.thread_offset = 0;
	check_number(NULL);
}

/* A signal's frame is left to the system's unwinder, on an alternate stack as well. */
static void in_signal_handlers(void **state)
{
	stack_t alternate = {.ss_size = 1 << 16, .ss_sp = malloc(1 << 16)};
	struct sigaction action = {.sa_handler = in_handler};

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	raise(SIGUSR1);
	assert_int_equal(sigaltstack(&alternate, NULL), 0);
	action.sa_flags = SA_ONSTACK;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	raise(SIGUSR1);
	alternate.ss_flags = SS_DISABLE;
	assert_int_equal(sigaltstack(&alternate, NULL), 0);
	free(alternate.ss_sp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees),
		cmocka_unit_test(in_threads),
		cmocka_unit_test(in_signal_handlers),
		cmocka_unit_test(thread_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
