/* SPDX-License-Identifier: MIT */
/*
 * What the compiler calls before each access of code that it instruments for the thread sanitizer,
 * and in place of each atomic operation: here each is an access with a price. No sanitizer's
 * runtime is linked. This file is not instrumented.
 *
 * gcc and clang each call only some of these. Their names and arguments are the compilers'
 * interface. Memory orders (0 is relaxed) matter for the price of loads only, because one task runs
 * at a time.
 */
#include <stdint.h>
#include <string.h>

#include "scale/src/price.h"

#define HERE __builtin_return_address(0)

/* --- plain accesses --------------------------------------------------------------------------- */

#define DEFINE_ACCESS(name, size, access)                                                          \
	void __tsan_##name##size(void *at)                                                         \
	{                                                                                          \
		price_access(at, size, access, HERE);                                              \
	}

#define DEFINE_ACCESSES(size)                                                                      \
	DEFINE_ACCESS(read, size, PRICE_READ)                                                      \
	DEFINE_ACCESS(write, size, PRICE_WRITE)                                                    \
	DEFINE_ACCESS(read_write, size, PRICE_WRITE)                                               \
	DEFINE_ACCESS(unaligned_read, size, PRICE_READ)                                            \
	DEFINE_ACCESS(unaligned_write, size, PRICE_WRITE)                                          \
	DEFINE_ACCESS(unaligned_read_write, size, PRICE_WRITE)                                     \
	DEFINE_ACCESS(volatile_read, size, PRICE_READ)                                             \
	DEFINE_ACCESS(volatile_write, size, PRICE_WRITE)                                           \
	DEFINE_ACCESS(unaligned_volatile_read, size, PRICE_READ)                                   \
	DEFINE_ACCESS(unaligned_volatile_write, size, PRICE_WRITE)

DEFINE_ACCESSES(1)
DEFINE_ACCESSES(2)
DEFINE_ACCESSES(4)
DEFINE_ACCESSES(8)
DEFINE_ACCESSES(16)

void __tsan_read_range(void *at, long bytes)
{
	price_access(at, (size_t)bytes, PRICE_READ, HERE);
}

void __tsan_write_range(void *at, long bytes)
{
	price_access(at, (size_t)bytes, PRICE_WRITE, HERE);
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller)
{
	(void)caller;
}

void __tsan_func_exit(void)
{
}

/* --- atomic operations ------------------------------------------------------------------------ */

#define DEFINE_CHANGE(bits, type, name, builtin)                                                   \
	type __tsan_atomic##bits##_##name(volatile type *at, type value, int order)                \
	{                                                                                          \
		(void)order;                                                                       \
		price_access(at, sizeof(*at), PRICE_CHANGE, HERE);                                 \
		return builtin(at, value, __ATOMIC_RELAXED);                                       \
	}

#define DEFINE_COMPARE(bits, type, name)                                                           \
	int __tsan_atomic##bits##_compare_exchange_##name(volatile type *at, type *expected,       \
							  type value, int order, int failed)       \
	{                                                                                          \
		(void)order, (void)failed;                                                         \
		price_access(at, sizeof(*at), PRICE_CHANGE, HERE);                                 \
		return __atomic_compare_exchange_n(at, expected, value, 0, __ATOMIC_RELAXED,       \
						   __ATOMIC_RELAXED);                              \
	}

#define DEFINE_COMPARE_VALUE(bits, type)                                                           \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected,          \
							type value, int order, int failed)         \
	{                                                                                          \
		(void)order, (void)failed;                                                         \
		price_access(at, sizeof(*at), PRICE_CHANGE, HERE);                                 \
		__atomic_compare_exchange_n(at, &expected, value, 0, __ATOMIC_RELAXED,             \
					    __ATOMIC_RELAXED);                                     \
		return expected;                                                                   \
	}

#define DEFINE_ATOMICS(bits, type)                                                                 \
	type __tsan_atomic##bits##_load(const volatile type *at, int order)                        \
	{                                                                                          \
		price_access(at, sizeof(*at), order ? PRICE_LOOK : PRICE_READ, HERE);              \
		return __atomic_load_n(at, __ATOMIC_RELAXED);                                      \
	}                                                                                          \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order)                 \
	{                                                                                          \
		(void)order;                                                                       \
		price_access(at, sizeof(*at), PRICE_WRITE, HERE);                                  \
		__atomic_store_n(at, value, __ATOMIC_RELAXED);                                     \
	}                                                                                          \
	DEFINE_CHANGE(bits, type, exchange, __atomic_exchange_n)                                   \
	DEFINE_CHANGE(bits, type, fetch_add, __atomic_fetch_add)                                   \
	DEFINE_CHANGE(bits, type, fetch_sub, __atomic_fetch_sub)                                   \
	DEFINE_CHANGE(bits, type, fetch_and, __atomic_fetch_and)                                   \
	DEFINE_CHANGE(bits, type, fetch_or, __atomic_fetch_or)                                     \
	DEFINE_CHANGE(bits, type, fetch_xor, __atomic_fetch_xor)                                   \
	DEFINE_CHANGE(bits, type, fetch_nand, __atomic_fetch_nand)                                 \
	DEFINE_COMPARE(bits, type, strong)                                                         \
	DEFINE_COMPARE(bits, type, weak)                                                           \
	DEFINE_COMPARE_VALUE(bits, type)

DEFINE_ATOMICS(8, uint8_t)
DEFINE_ATOMICS(16, uint16_t)
DEFINE_ATOMICS(32, uint32_t)
DEFINE_ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int order)
{
	(void)order;
}

void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}

/* --- calls that copy -------------------------------------------------------------------------- */

/* Clang calls the first of each pair; sources are compiled with the second one's name in place of
 * the C library's. */
#define DEFINE_COPY(name, copy)                                                                    \
	void *name(void *to, const void *from, size_t n)                                           \
	{                                                                                          \
		price_access(from, n, PRICE_READ, HERE);                                           \
		price_access(to, n, PRICE_WRITE, HERE);                                            \
		return copy(to, from, n);                                                          \
	}

DEFINE_COPY(__tsan_memcpy, memcpy)
DEFINE_COPY(__tsan_memmove, memmove)
DEFINE_COPY(price_memcpy, memcpy)
DEFINE_COPY(price_memmove, memmove)

void price_prefetch(const void *at, int write, ...)
{
	price_access(at, 1, write ? PRICE_PREFETCH_WRITE : PRICE_PREFETCH, HERE);
}

#define DEFINE_SET(name)                                                                           \
	void *name(void *to, int byte, size_t n)                                                   \
	{                                                                                          \
		price_access(to, n, PRICE_WRITE, HERE);                                            \
		return memset(to, byte, n);                                                        \
	}

DEFINE_SET(__tsan_memset)
DEFINE_SET(price_memset)
