/* SPDX-License-Identifier: MIT */
/*
 * Walks of the stack by rows of unwind tables that are kept, against the system's unwinder: in
 * functions with and without a frame pointer, below others' code, in threads and signal handlers.
 * Walks of stacks whose outermost return address is none.
 * And the number of the thread, which is stored beside a stack.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <sheaf/trim.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/unwind/stack.h"

enum {
	MOST = 64,
	STACK = 1 << 16,
};

struct frames {
	uintptr_t ip[MOST];
	unsigned int n;
};

static unsigned int compared;

static _Unwind_Reason_Code add(struct _Unwind_Context *context, void *argument)
{
	struct frames *frames = argument;

	if (!_Unwind_GetIP(context) || frames->n == MOST)
		return _URC_END_OF_STACK;
	frames->ip[frames->n++] = _Unwind_GetIP(context);
	return _URC_NO_REASON;
}

/* A walk ends where no loaded module has the code: an emulator's, to which handlers return. */
static unsigned int known_of(const struct frames *frames)
{
	unsigned int n = 0;

#ifdef DLFO_STRUCT_HAS_EH_DBASE
	struct dl_find_object found;

	while (n < frames->n && !_dl_find_object((void *)(frames->ip[n] - 1), &found))
		n++;
#endif
	return n;
}

/* Both walks agree from the calling function's caller on. */
static __attribute__((noinline)) void compare(void)
{
	uintptr_t caller = (uintptr_t)__builtin_return_address(0);
	struct frames expected = {.n = 0}, found = {.n = 0};
	unsigned int e = 0, f = 0;

	_Unwind_Backtrace(add, &expected);
	found.n = os_stack_walk(found.ip, MOST);
	if (!found.n)
		skip(); /* a C library without _dl_find_object() */
	expected.n = known_of(&expected);
	while (e < expected.n && expected.ip[e] != caller)
		e++;
	while (f < found.n && found.ip[f] != caller)
		f++;
	assert_true(expected.n - e >= 2);
	if (expected.n < MOST && found.n < MOST)
		assert_int_equal(found.n - f, expected.n - e);
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

/* gcc reaches the stack of the caller through memory here, and returns by it. */
static __attribute__((noinline)) void realigned(size_t size, ...)
{
	volatile char room[64] __attribute__((aligned(64)));
	volatile char *more = alloca(size);

	room[0] = more[0] = 1;
	assert_int_equal((uintptr_t)room % 64, 0);
	recurse(1);
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
	recurse(2);
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
		realigned(100, round);
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

/* On an alternate stack as well (STACK-B1). */
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

/* --- stacks that end in no code --------------------------------------------------------------- */

static struct kmem_cache *s;
static ucontext_t here, there;
static struct frames found;
static struct capture captured;

static void on_own_stack(void)
{
	int not_an_object;

	found.n = os_stack_walk(found.ip, MOST);
	s = make("own", 64, SLAB_NO_MERGE);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	kmem_cache_free(s, (void *)&not_an_object);
	sheaf_trim(0);
	kmem_cache_destroy(s);
	swapcontext(&there, &here);
	abort();
}

/* Let the function be the first one of a stack that ends with a page; no memory is behind it. The
 * address is where it would return to. */
static void with_outermost(uintptr_t address, char *end)
{
	getcontext(&there);
	there.uc_stack = (stack_t){.ss_sp = end - STACK, .ss_size = STACK};
	there.uc_link = NULL;
	makecontext(&there, on_own_stack, 0);
#if defined(__x86_64__)
	there.uc_mcontext.gregs[REG_RSP] = (greg_t)(end - sizeof(address));
	memcpy(end - sizeof(address), &address, sizeof(address));
#elif defined(__aarch64__)
	there.uc_mcontext.sp = (uintptr_t)end;
	there.uc_mcontext.regs[30] = address;
#endif
	capture_begin(&captured);
	swapcontext(&here, &there);
	assert_true(capture_end(&captured) > 0);
}

/* UNWIND-U3, UNWIND-U4 */
static void ends_where_nothing_is(void **state)
{
	static char data[4096];
	char *stack = mmap(NULL, STACK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	char *beyond = stack + STACK;
	uintptr_t wild[] = {0,
			    1,
			    17,
			    0xdeaddeaddeaddead,
			    UINTPTR_MAX,
			    (uintptr_t)stack,
			    (uintptr_t)beyond,
			    (uintptr_t)data + 64,
			    (uintptr_t)environ};

	(void)state;
	assert_ptr_not_equal(stack, MAP_FAILED);
	munmap(beyond, 4096);
	for (size_t i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
		with_outermost(wild[i], beyond);
		assert_true(found.n <= 1);
		assert_true(!strstr(captured.text, "deaddead"));
	}
	/* Code, but no caller: the stack ends before its frame does. */
	with_outermost((uintptr_t)realigned + 1, beyond);
	with_outermost((uintptr_t)many_arguments + 32, beyond);
	assert_true(found.n >= 1);
	munmap(stack, STACK);
}

static void names_no_module_that_is_gone(void **state)
{
	char *gone = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char text[100], expected[100];
	size_t offset;

	(void)state;
	munmap(gone, 4096);
	snprintf(expected, sizeof(expected), " [%p]", (void *)(gone + 16));
	os_stack_frame(text, sizeof(text), (uintptr_t)gone + 16);
	assert_string_equal(text, expected);
	assert_null(os_stack_module((uintptr_t)gone + 16, &offset));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees),
		cmocka_unit_test(in_threads),
		cmocka_unit_test(in_signal_handlers),
		cmocka_unit_test(ends_where_nothing_is),
		cmocka_unit_test(names_no_module_that_is_gone),
		cmocka_unit_test(thread_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
