/* SPDX-License-Identifier: MIT */
/* Reports of misuse: their number, their stacks, and the abort by panic_on_warn. */
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>

#include <sheaf/debug.h>
#include <sheaf/rcu.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/unwind/stack.h"
#include "os/unwind/symtab.h"

/* Reports of checked caches have many lines. */
#define UNCHECKED SLAB_NO_USER_FLAGS

static struct capture captured;
static int not_an_object;

/* Names that the program exports: the stacks show them. */
void wrong_free(struct kmem_cache *s);
void misused_here(void);
void kept_here(void);
void written_here(void);

__attribute__((noinline)) void wrong_free(struct kmem_cache *s)
{
	kmem_cache_free(s, &not_an_object);
	__asm__ volatile(""); /* no tail call */
}

__attribute__((noinline)) void misused_here(void)
{
	os_misuse("here", "a line");
	__asm__ volatile("");
}

__attribute__((noinline)) void kept_here(void)
{
	os_misuse_later("kept", "a line");
	__asm__ volatile("");
}

__attribute__((noinline)) void written_here(void)
{
	os_report_kept();
	__asm__ volatile("");
}

/* No module exports it. */
static __attribute__((noinline)) void misused_in_static(void)
{
	os_misuse("static", "a line");
	__asm__ volatile("");
}

static bool no_stacks(void)
{
	char text[512];

	if (os_stack(text, sizeof(text)))
		return false;
	print_message("this C library does not find unwind tables without a lock\n");
	return true;
}

/* The first 5, the 10th, the 100th and the 1000th are written; each cache has its own count. */
static void a_thousand_are_a_few_lines(void **state)
{
	struct kmem_cache *s = make("thousand", 64, UNCHECKED),
			  *other = make("other", 64, UNCHECKED);
	uint32_t before = os_reports;

	(void)state;
	capture_begin(&captured);
	for (int i = 0; i < 1000; i++)
		wrong_free(s);
	wrong_free(s);
	wrong_free(other);
	os_misuse_left_out();
	assert_int_equal(capture_end(&captured), 5 + 3 + 1 + 1);
	assert_int_equal(os_reports - before, 1000 + 1 + 1 + 1);
	assert_non_null(strstr(captured.text, "number 10 of such"));
	assert_non_null(strstr(captured.text, "number 1000 of such"));
	assert_non_null(strstr(captured.text, "kmem_cache_free(other, "));
	assert_non_null(strstr(captured.text, "993 reports of misuse were left out"));
	kmem_cache_destroy(s);
	kmem_cache_destroy(other);
}

static unsigned int lines, lines_full;

static void count_line(void *data, const char *text, size_t length)
{
	(void)data;
	lines++;
	lines_full += memmem(text, length, "counted as one kind", 19) != NULL;
}

static void of_kinds(unsigned int first, unsigned int last, int times)
{
	char name[16];

	lines = lines_full = 0;
	for (unsigned int i = first; i < last; i++) {
		snprintf(name, sizeof(name), "kind %u", i);
		for (int n = 0; n < times; n++)
			os_misuse(name, "a line");
		os_report_kept();
	}
}

/* Of each cache the first 5, however many there are; beyond the table, a line says so, once. */
static void each_of_many_caches_is_reported(void **state)
{
	(void)state;
	os_misuse_forget();
	assert_int_equal(sheaf_set_report(count_line, NULL, NULL), 0);
	of_kinds(0, 500, 6);
	assert_int_equal(lines, 5 * 500);
	of_kinds(0, 500, 6);
	assert_int_equal(lines, 500); /* the 10th of each */
	of_kinds(500, 6000, 1);
	assert_in_range(lines, 3500, 3700);
	assert_int_equal(lines_full, 1);
	sheaf_set_report(NULL, NULL, NULL);
}

/* tests/install/check-install looks at the stacks of public calls, where the library's own
 * functions are left out (STACK-B2). */
static void a_report_says_who_called(void **state)
{
	(void)state;
	if (no_stacks())
		skip();
	capture_begin(&captured);
	misused_here();
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "a line; called from "));
	assert_non_null(strstr(captured.text, "(misused_here+0x"));
}

/* It is in the program's file, if that was not stripped. */
static void a_report_names_static_functions(void **state)
{
	(void)state;
	if (no_stacks())
		skip();
	capture_begin(&captured);
	misused_in_static();
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "(misused_in_static+0x"));
}

/* SYMTAB-Y2. */
static void another_file_names_nothing(void **state)
{
	static const char other[1024];
	char name[20];
	size_t offset = 42;

	(void)state;
	assert_false(symtab_find("/proc/self/exe", other, 0, name, sizeof(name), &offset));
	assert_false(symtab_find("/nowhere", other, 0, name, sizeof(name), &offset));
	assert_int_equal(offset, 42);
}

static void a_kept_line_has_the_stack_of_its_maker(void **state)
{
	(void)state;
	if (no_stacks())
		skip();
	capture_begin(&captured);
	kept_here();
	written_here();
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "(kept_here+0x"));
	assert_null(strstr(captured.text, "(written_here+0x"));
}

static struct kmem_cache *used_by_handler;

static void on_signal(int number)
{
	(void)number;
	kmem_cache_free_nolock(used_by_handler, &not_an_object);
}

static void a_handler_reports(void **state)
{
	(void)state;
	used_by_handler = make("handler", 64, UNCHECKED);
	signal(SIGUSR1, on_signal);
	capture_begin(&captured);
	raise(SIGUSR1);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "kmem_cache_free_nolock(handler, "));
	kmem_cache_destroy(used_by_handler);
}

/* Bytes of the frame of a signal, with all registers; qemu does not say it. */
static size_t signal_frame(void)
{
	unsigned long size = getauxval(AT_MINSIGSTKSZ);

#ifdef __aarch64__
	return size ? size : 7168;
#else
	return size ? size : 3072;
#endif
}

/* A walk of the stack would not fit below the frame of the signal, and the program would end. */
static void a_handler_on_a_small_stack_reports(void **state)
{
	static char memory[65536]; /* the stack is the last part */
	size_t size = signal_frame() + 5120, below = sizeof(memory) - size;
	stack_t small = {.ss_sp = memory + below, .ss_size = size}, before;
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, usual;

	(void)state;
	used_by_handler = make("small", 64, UNCHECKED);
	assert_int_equal(sigaltstack(&small, &before), 0);
	sigaction(SIGUSR1, &action, &usual);
	capture_begin(&captured);
	raise(SIGUSR1);
	capture_end(&captured);
	sigaction(SIGUSR1, &usual, NULL);
	sigaltstack(&before, NULL);
	/* A sanitizer's frames are larger. */
	for (size_t at = 0; at < below && !os.tools; at++)
		assert_int_equal(memory[at], 0);
	assert_non_null(strstr(captured.text, "kmem_cache_free_nolock(small, "));
	kmem_cache_destroy(used_by_handler);
}

static void misuse_twice(void)
{
	struct kmem_cache *s = make("panic", 64, UNCHECKED);

	os_options.panic_on_warn = 1;
	os_report("no misuse");
	wrong_free(s);
	os_report("not reached");
}

static void misuse_at_once(void)
{
	os_options.panic_on_warn = 1;
	os_misuse(NULL, "at once");
	os_report("not reached");
}

static void check_end(void (*body)(void), int lines)
{
	int status;

	capture_begin(&captured);
	status = in_child(body);
	assert_int_equal(capture_end(&captured), lines);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_null(strstr(captured.text, "not reached"));
}

static void panic_ends_after_the_line(void **state)
{
	(void)state;
	check_end(misuse_twice, 2);
	assert_non_null(strstr(captured.text, "kmem_cache_free(panic, "));
	check_end(misuse_at_once, 1);
}

/* --- what programs pass to calls that refuse it: no provider is registered here --------------- */

static void no_provider(void)
{
	(void)kmem_cache_create("typesafe", 64, NULL, SLAB_TYPESAFE_BY_RCU);
}

static void half_a_provider(void)
{
	static const struct sheaf_rcu_ops half = {.size = sizeof(half), .name = "half"};
	struct kmem_cache_args args = {.rcu = &half};

	(void)kmem_cache_create("half", 64, &args, 0);
}

static void unknown_field(void)
{
	struct kmem_cache_args args = {.reserved2 = 1};

	(void)kmem_cache_create("unknown", 64, &args, 0);
}

static void no_name(void)
{
	kmem_cache_destroy(kmem_cache_create(NULL, 64, NULL, SLAB_NO_MERGE));
}

static void register_nothing(void)
{
	(void)sheaf_rcu_register(NULL);
}

static void (*refused)(void);

static void refused_with_panic(void)
{
	os_options.panic_on_warn = 1;
	refused();
	os_report("not reached");
}

static void wrong_arguments_are_misuse(void **state)
{
	static void (*const all[])(void) = {no_provider, half_a_provider, unknown_field, no_name,
					    register_nothing};

	(void)state;
	for (unsigned int i = 0; i < sizeof(all) / sizeof(*all); i++) {
		capture_begin(&captured);
		for (int n = 0; n < 10; n++)
			all[i]();
		assert_int_equal(capture_end(&captured), 5 + 1);
		refused = all[i];
		check_end(refused_with_panic, 1);
	}
}

int test_misuse(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thousand_are_a_few_lines),
		cmocka_unit_test(a_report_says_who_called),
		cmocka_unit_test(a_report_names_static_functions),
		cmocka_unit_test(another_file_names_nothing),
		cmocka_unit_test(a_kept_line_has_the_stack_of_its_maker),
		cmocka_unit_test(a_handler_reports),
		cmocka_unit_test(a_handler_on_a_small_stack_reports),
		cmocka_unit_test(panic_ends_after_the_line),
		cmocka_unit_test(wrong_arguments_are_misuse),
		cmocka_unit_test(each_of_many_caches_is_reported),
	};

	return cmocka_run_group_tests_name("misuse", tests, NULL, NULL);
}
