/* SPDX-License-Identifier: MIT */
/*
 * liburcu as a provider of grace periods (<sheaf/rcu.h>): any flavour, and several in one program.
 *
 *     #include <sheaf/rcu.h>         // includes this file
 *     #include <urcu.h>              // or <urcu-qsbr.h>, <urcu-bp.h>: before or after
 *
 *     sheaf_urcu_register(0);        // once; link with libsheaf-urcu and the flavour
 *
 * Only macros in this file use functions of liburcu, so the flavour's header is needed only where
 * the macros are used. liburcu 0.11 or later.
 *
 * With liburcu's memb, mb and qsbr flavours, a thread that calls kfree_rcu() must be registered, as
 * for call_rcu().
 */
#ifndef SHEAF_URCU_H
#define SHEAF_URCU_H

#include <sheaf/rcu.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHEAF_URCU_NO_ATFORK 1u /* the program calls liburcu's fork handlers itself */

/*
 * Register the flavour whose header this source file includes as the provider of the process; see
 * sheaf_urcu_provider() and sheaf_rcu_register(), whose results it returns.
 */
#define sheaf_urcu_register(flags) sheaf_rcu_register(SHEAF_URCU_MAPPED(rcu_flavor, flags))

/*
 * Return the provider of a flavour, to register it or for kmem_cache_args.rcu. `flavor` is the
 * prefix of its functions: urcu_memb, urcu_mb, urcu_qsbr, urcu_bp. Every call returns the same
 * provider, with the flags of the first call.
 *
 * The first call creates a call_rcu worker thread. If no thread can be created, grace periods pass
 * only in the calls that wait, and one line reports this. The library calls liburcu's fork handlers
 * around fork(), as liburcu's documentation requires, unless flags say that the program does. NULL
 * after a report if there are too many flavours. The calling thread must be registered. Takes a
 * lock.
 */
#define sheaf_urcu_provider(flavor, flags)                                                         \
	__sheaf_urcu_provide(&flavor##_flavor, flavor##_create_call_rcu_data,                      \
			     flavor##_get_thread_call_rcu_data, flavor##_set_thread_call_rcu_data, \
			     flavor##_call_rcu_before_fork, flavor##_call_rcu_after_fork_parent,   \
			     flavor##_call_rcu_after_fork_child, SHEAF_URCU_READERS_##flavor,      \
			     flavor##_get_default_call_rcu_data, SHEAF_URCU_POLL(flavor), flags)

/* --- private from here on ----------------------------------------------------------------------
 */

/* What rcu_flavor is depends on the header: <urcu.h> and its like make it a macro. */
#define SHEAF_URCU_MAPPED(flavor, flags)	SHEAF_URCU_PASTE(SHEAF_URCU_IS_, flavor)(flags)
#define SHEAF_URCU_PASTE(a, b)			a##b
#define SHEAF_URCU_IS_urcu_memb_flavor(flags)	sheaf_urcu_provider(urcu_memb, flags)
#define SHEAF_URCU_IS_urcu_mb_flavor(flags)	sheaf_urcu_provider(urcu_mb, flags)
#define SHEAF_URCU_IS_urcu_signal_flavor(flags) sheaf_urcu_provider(urcu_signal, flags)
#define SHEAF_URCU_IS_urcu_qsbr_flavor(flags)	sheaf_urcu_provider(urcu_qsbr, flags)
#define SHEAF_URCU_IS_urcu_bp_flavor(flags)	sheaf_urcu_provider(urcu_bp, flags)
#define SHEAF_URCU_IS_rcu_flavor(flags)		sheaf_urcu_register_needs_the_header_of_a_flavour

/* Handlers of flavours that register readers by themselves. */
#define SHEAF_URCU_READERS_urcu_memb   NULL, NULL, NULL
#define SHEAF_URCU_READERS_urcu_mb     NULL, NULL, NULL
#define SHEAF_URCU_READERS_urcu_signal NULL, NULL, NULL
#define SHEAF_URCU_READERS_urcu_qsbr   NULL, NULL, NULL
#define SHEAF_URCU_READERS_urcu_bp                                                                 \
	urcu_bp_before_fork, urcu_bp_after_fork_parent, urcu_bp_after_fork_child

/* From liburcu 0.14 on. */
#ifdef __has_include
#if __has_include(<urcu/urcu-poll.h>)
#define SHEAF_URCU_POLL(flavor)                                                                    \
	flavor##_start_poll_synchronize_rcu, flavor##_poll_state_synchronize_rcu
#endif
#endif
#ifndef SHEAF_URCU_POLL
#define SHEAF_URCU_POLL(flavor) NULL, NULL
#endif

struct rcu_flavor_struct;
struct call_rcu_data;
struct urcu_gp_poll_state;

/* A flavour's own functions: so libsheaf-urcu links none of liburcu. */
struct sheaf_urcu {
	const struct rcu_flavor_struct *flavor;
	struct call_rcu_data *(*create_worker)(unsigned long flags, int cpu);
	struct call_rcu_data *(*get_worker)(void);
	void (*set_worker)(struct call_rcu_data *worker);
	void (*before_fork)(void);
	void (*after_fork_parent)(void);
	void (*after_fork_child)(void);
	void (*readers_before_fork)(void);
	void (*readers_after_fork_parent)(void);
	void (*readers_after_fork_child)(void);
	struct call_rcu_data *(*get_default_worker)(void);
	struct urcu_gp_poll_state (*start_poll)(void);
	bool (*poll)(struct urcu_gp_poll_state state);
};

const struct sheaf_rcu_ops *__sheaf_urcu_provider(const struct sheaf_urcu *urcu, size_t size,
						  unsigned int flags);

static inline const struct sheaf_rcu_ops *__sheaf_urcu_provide(
	const struct rcu_flavor_struct *flavor,
	struct call_rcu_data *(*create_worker)(unsigned long flags, int cpu),
	struct call_rcu_data *(*get_worker)(void), void (*set_worker)(struct call_rcu_data *worker),
	void (*before_fork)(void), void (*after_fork_parent)(void), void (*after_fork_child)(void),
	void (*readers_before_fork)(void), void (*readers_after_fork_parent)(void),
	void (*readers_after_fork_child)(void), struct call_rcu_data *(*get_default_worker)(void),
	struct urcu_gp_poll_state (*start_poll)(void),
	bool (*poll)(struct urcu_gp_poll_state state), unsigned int flags)
{
	const struct sheaf_urcu urcu = {flavor,
					create_worker,
					get_worker,
					set_worker,
					before_fork,
					after_fork_parent,
					after_fork_child,
					readers_before_fork,
					readers_after_fork_parent,
					readers_after_fork_child,
					get_default_worker,
					start_poll,
					poll};

	return __sheaf_urcu_provider(&urcu, sizeof(urcu), flags);
}

#ifdef __cplusplus
}
#endif

#endif
