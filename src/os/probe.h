/* SPDX-License-Identifier: MIT */
/*
 * Places that perf, bpftrace and gdb can watch in any program: "user statically defined tracing",
 * as <sys/sdt.h> of systemtap has it, without that file.
 *
 *   probe(flush, cache->name, sheaf->size)      is watched as libsheaf:flush
 *
 * It is an instruction that does nothing, and a note next to the code with its address, its names
 * and the places of its arguments: `readelf -n` prints them. A tracer replaces the instruction.
 * There are one to three arguments, integers or pointers. They are always computed: for slow paths
 * only.
 *
 * Callers: every layer. docs/tracing.md lists the probes.
 */
#ifndef SHEAF_OS_PROBE_H
#define SHEAF_OS_PROBE_H

#include <stdint.h>

#if defined(__x86_64__) || defined(__aarch64__)
#define PROBE_NOTE(provider, name, counter, arguments)                                             \
	"990:\tnop\n"                                                                              \
	"\t.pushsection .note.stapsdt,\"?\",\"note\"\n"                                            \
	"\t.balign 4\n"                                                                            \
	"\t.4byte 992f-991f,994f-993f,3\n"                                                         \
	"991:\t.asciz \"stapsdt\"\n"                                                               \
	"992:\t.balign 4\n"                                                                        \
	"993:\t.8byte 990b\n"                                                                      \
	"\t.8byte _.stapsdt.base\n"                                                                \
	"\t.8byte " counter "\n"                                                                   \
	"\t.asciz \"" provider "\"\n"                                                              \
	"\t.asciz \"" name "\"\n"                                                                  \
	"\t.asciz \"" arguments "\"\n"                                                             \
	"994:\t.balign 4\n"                                                                        \
	"\t.popsection\n"                                                                          \
	"\t.ifndef _.stapsdt.base\n"                                                               \
	"\t.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                  \
	"\t.weak _.stapsdt.base\n"                                                                 \
	"\t.hidden _.stapsdt.base\n"                                                               \
	"_.stapsdt.base:\t.space 1\n"                                                              \
	"\t.size _.stapsdt.base,1\n"                                                               \
	"\t.popsection\n"                                                                          \
	"\t.endif"
#define PROBE_1(provider, name, counter, a)                                                        \
	__asm__ volatile(PROBE_NOTE(provider, name, counter, "8@%0") : : "r"((uintptr_t)(a)))
#define PROBE_2(provider, name, counter, a, b)                                                     \
	__asm__ volatile(PROBE_NOTE(provider, name, counter, "8@%0 8@%1")                          \
			 :                                                                         \
			 : "r"((uintptr_t)(a)), "r"((uintptr_t)(b)))
#define PROBE_3(provider, name, counter, a, b, c)                                                  \
	__asm__ volatile(PROBE_NOTE(provider, name, counter, "8@%0 8@%1 8@%2")                     \
			 :                                                                         \
			 : "r"((uintptr_t)(a)), "r"((uintptr_t)(b)), "r"((uintptr_t)(c)))
#else
#define PROBE_1(provider, name, counter, a)	  ((void)(a))
#define PROBE_2(provider, name, counter, a, b)	  ((void)(a), (void)(b))
#define PROBE_3(provider, name, counter, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

#define PROBE_PICK(one, two, three, which, ...) which
#define PROBE_FOR(...)				PROBE_PICK(__VA_ARGS__, PROBE_3, PROBE_2, PROBE_1, )
#define probe(name, ...)			PROBE_FOR(__VA_ARGS__)("libsheaf", #name, "0", __VA_ARGS__)
/*
 * PROVIDER:name. Tracers that watch it count themselves in PROBE_COUNTER(PROVIDER, name), which one
 * file defines.
 */
#define probe_counted(provider, name, ...)                                                         \
	PROBE_FOR(__VA_ARGS__)                                                                     \
	(#provider, #name, "sheaf_" #provider "_" #name "_semaphore", __VA_ARGS__)
#define PROBE_COUNTER(provider, name)                                                              \
	uint16_t sheaf_##provider##_##name##_semaphore                                             \
		__attribute__((used, section(".probes"), visibility("hidden")))

#endif
