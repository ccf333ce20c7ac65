/* SPDX-License-Identifier: MIT */
/*
 * How the library talks to each tool; see memory_tools.h.
 *
 * A program that is built with a sanitizer contains functions to call. valgrind recognises a
 * sequence of instructions that has no effect elsewhere; a register holds the address of a number
 * and its arguments. valgrind calls this a "client request". The sequence and the numbers are its
 * interface, and do not change.
 */
#include "os/memory_tools.h"

#include <stdint.h>

#include "os/tsan.h"

/* The sanitizers' own names. */
extern void __asan_poison_memory_region(const volatile void *at, size_t bytes)
	__attribute__((weak));
extern void __asan_unpoison_memory_region(const volatile void *at, size_t bytes)
	__attribute__((weak));
extern void __asan_set_error_report_callback(void (*callback)(const char *text))
	__attribute__((weak));
extern void *__asan_get_report_address(void) __attribute__((weak));
extern void __msan_allocated_memory(const volatile void *at, size_t bytes) __attribute__((weak));
extern void __msan_unpoison(const volatile void *at, size_t bytes) __attribute__((weak));
extern void __lsan_register_root_region(const void *at, size_t bytes) __attribute__((weak));
extern void __lsan_unregister_root_region(const void *at, size_t bytes) __attribute__((weak));

/* valgrind's numbers: for all its tools, and for memcheck ('M', 'C'). */
enum {
	ASK_TAKEN = 0x1301,
	ASK_FREED = 0x1302,
	ASK_RESIZED = 0x130b,
	ASK_QUIET = 0x1801, /* +1: do not report this thread's errors; -1: report them again */
	ASK_CLOSED = 0x4d430000,
	ASK_UNDEFINED,
	ASK_DEFINED,
};

/* The answer; 0 without valgrind. */
static uintptr_t ask(uintptr_t number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d)
{
	volatile uintptr_t words[] = {number, a, b, c, d, 0};
	uintptr_t answer = 0;

#if defined(__x86_64__)
	__asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\t"
			 "rolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
			 : "+d"(answer)
			 : "a"(words)
			 : "cc", "memory");
#elif defined(__aarch64__)
	register uintptr_t result __asm__("x3") = answer;
	register volatile uintptr_t *at __asm__("x4") = words;

	__asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\t"
			 "ror x12, x12, #61\n\torr x10, x10, x10"
			 : "+r"(result)
			 : "r"(at)
			 : "cc", "memory", "x12");
	answer = result;
#else
	(void)words;
#endif
	return answer;
}

static void tell(uintptr_t number, const void *at, size_t bytes)
{
	if (os.tools & TOOL_MEMCHECK)
		ask(number, (uintptr_t)at, bytes, 0, 0);
}

/* Of valgrind's tools, only memcheck answers this request. */
static bool is_memcheck(void)
{
	static char byte;

	return ask(ASK_DEFINED, (uintptr_t)&byte, sizeof(byte), 0, 0) != 0;
}

uint32_t tools_find(void)
{
	uint32_t tools = is_memcheck() ? TOOL_MEMCHECK : 0;

	if (&__asan_poison_memory_region && &__asan_unpoison_memory_region)
		tools |= TOOL_ASAN;
	if (&__msan_allocated_memory && &__msan_unpoison)
		tools |= TOOL_MSAN;
	if (tsan_is_there() && !OS_TSAN)
		tools |= TOOL_TSAN;
	return tools;
}

void tools_do_open(const void *at, size_t bytes)
{
	if (os.tools & TOOL_ASAN)
		__asan_unpoison_memory_region(at, bytes);
	if (os.tools & TOOL_MSAN)
		__msan_unpoison(at, bytes);
	tell(ASK_DEFINED, at, bytes);
}

/* The memory sanitizer records the stack as the origin of the bytes. */
static void forget_values(const void *at, size_t bytes)
{
	if (os.tools & TOOL_MSAN)
		__msan_allocated_memory(at, bytes);
}

void tools_do_close(const void *at, size_t bytes)
{
	if (os.tools & TOOL_ASAN)
		__asan_poison_memory_region(at, bytes);
	forget_values(at, bytes);
	tell(ASK_CLOSED, at, bytes);
}

void tools_do_taken(const void *block, size_t bytes, bool defined)
{
	if (os.tools & TOOL_ASAN)
		__asan_unpoison_memory_region(block, bytes);
	if (defined)
		tools_do_wrote(block, bytes);
	else
		forget_values(block, bytes);
	/* Without red zones of memcheck's own: the library closes its red zones. */
	if (os.tools & TOOL_MEMCHECK)
		ask(ASK_TAKEN, (uintptr_t)block, bytes, 0, defined);
}

void tools_do_resized(const void *block, size_t old, size_t bytes)
{
	if (os.tools & TOOL_ASAN)
		__asan_unpoison_memory_region(block, bytes);
	if (bytes > old)
		forget_values((const char *)block + old, bytes - old);
	if (os.tools & TOOL_MEMCHECK)
		ask(ASK_RESIZED, (uintptr_t)block, old, bytes, 0);
}

void tools_do_freed(const void *block, size_t bytes)
{
	if (os.tools & TOOL_MEMCHECK)
		ask(ASK_FREED, (uintptr_t)block, 0, 0, 0);
	tools_do_close(block, bytes);
}

void tools_do_wrote(const void *at, size_t bytes)
{
	if (os.tools & TOOL_MSAN)
		__msan_unpoison(at, bytes);
}

void tools_do_look(bool begin)
{
	if (os.tools & TOOL_MEMCHECK)
		ask(ASK_QUIET, begin ? 1 : (uintptr_t)-1, 0, 0, 0);
}

void tools_hold(const void *at, size_t bytes)
{
	if (&__lsan_register_root_region)
		__lsan_register_root_region(at, bytes);
}

void tools_hold_no_more(const void *at, size_t bytes)
{
	if (&__lsan_unregister_root_region)
		__lsan_unregister_root_region(at, bytes);
}

static void (*explain_address)(const void *address);

static void on_error(const char *text)
{
	(void)text;
	explain_address(__asan_get_report_address());
}

void tools_explain_by(void (*explain)(const void *address))
{
	explain_address = explain;
	if ((os.tools & TOOL_ASAN) && &__asan_set_error_report_callback &&
	    &__asan_get_report_address)
		__asan_set_error_report_callback(on_error);
}
