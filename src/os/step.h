/* SPDX-License-Identifier: MIT */
/*
 * The steps of a simulation: before each access of shared memory, and before each other call of the
 * machine, the simulator learns what the running fibre is about to do, and may switch CPUs. In the
 * library itself a step is nothing.
 *
 * Operands are evaluated before the step, so no other access comes between it and its own.
 *
 * Callers: os/atomic.h, os/section_c.h, sim/.
 */
#ifndef SHEAF_OS_STEP_H
#define SHEAF_OS_STEP_H

#ifdef SHEAF_SIM
#include <stddef.h>

/* X(name, what a trace says, can it change what other fibres see?) */
#define OS_STEPS(X)                                                                                \
	X(LOAD, "loads", 0)                                                                        \
	X(STORE, "stores", 1)                                                                      \
	X(CHANGE, "changes", 1) /* loads and stores at once */                                     \
	X(COMPARE, "compares and stores", 1)                                                       \
	X(FENCE, "orders memory", 0)                                                               \
	X(WRITE, "stores in its section", 1) /* unless it was aborted */                           \
	X(COMMIT, "commits its section", 1)  /* unless it was aborted */                           \
	X(LOCK, "locks", 1)                                                                        \
	X(TRYLOCK, "tries to lock", 1)                                                             \
	X(UNLOCK, "unlocks", 1)                                                                    \
	X(WAIT, "waits on", 0)                                                                     \
	X(WAKE, "wakes a waiter on", 1)                                                            \
	X(BARRIER, "calls membarrier", 1) /* aborts sections on every CPU */                       \
	X(CPU, "reads its CPU's number", 0)                                                        \
	X(MEMORY, "asks the system for memory", 1) /* or returns it; the address may be NULL */    \
	X(SLEEP, "sleeps", 0)

#define OS_STEP_NAME(name, text, changes) OS_STEP_##name,
enum os_step_kind {
	OS_STEPS(OS_STEP_NAME)
};
#undef OS_STEP_NAME

/* A place in the source that makes steps. */
struct os_step {
	enum os_step_kind kind;
	const char *where; /* "file:line: the address as the source says it"; or NULL */
};

/* size: in bytes, from the address; 0 if there is no address. */
void os_sim_step(const struct os_step *step, const volatile void *address, size_t size);

#define OS_STEP_TEXT(line) #line
#define OS_STEP_LINE(line) OS_STEP_TEXT(line)
#define os_step(kind, address, size, text)                                                         \
	({                                                                                         \
		static const struct os_step step_ = {OS_STEP_##kind, __FILE__                      \
						     ":" OS_STEP_LINE(__LINE__) ": " text};        \
		os_sim_step(&step_, (address), (size));                                            \
	})
/* A step before an access of *p. The value is p. */
#define os_step_at(kind, p)                                                                        \
	({                                                                                         \
		__typeof__(p) at_ = (p);                                                           \
		os_step(kind, at_, sizeof(*at_), #p);                                              \
		at_;                                                                               \
	})
/* The same, for a built-in function that also gets a value. */
#define os_step_change(kind, builtin, p, v, ...)                                                   \
	({                                                                                         \
		__typeof__(*(p)) value_ = (v);                                                     \
		builtin(os_step_at(kind, p), value_, __VA_ARGS__);                                 \
	})
#else
#define os_step(kind, address, size, text)	 ((void)0)
#define os_step_at(kind, p)			 (p)
#define os_step_change(kind, builtin, p, v, ...) builtin((p), (v), __VA_ARGS__)
#endif

#endif
