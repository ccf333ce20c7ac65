/* SPDX-License-Identifier: MIT */
/* Grace periods for a single-threaded program, which is no reader: they pass immediately. */
#ifndef SHEAF_TESTS_PROVIDER_H
#define SHEAF_TESTS_PROVIDER_H

#include <sheaf/rcu.h>

static struct sheaf_rcu_head *provider_called;

static void provider_call(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	head->func = func;
	head->next = provider_called;
	provider_called = head;
}

/* Calls the functions added before; those that they add wait for the next time. */
static void provider_barrier(void)
{
	struct sheaf_rcu_head *called = provider_called;

	provider_called = NULL;
	while (called) {
		struct sheaf_rcu_head *head = called;

		called = head->next;
		head->func(head);
	}
}

static void provider_start_poll(struct sheaf_rcu_poll *state)
{
	state->words[0] = 0;
}

static int provider_poll(const struct sheaf_rcu_poll *state)
{
	(void)state;
	return 1;
}

/* 0, or an error of sheaf_rcu_register(). */
static inline int provider_try(void)
{
	static const struct sheaf_rcu_ops ops = {
		sizeof(struct sheaf_rcu_ops), "one thread", provider_call, provider_barrier,
		provider_start_poll,	      provider_poll};

	return sheaf_rcu_register(&ops);
}

static inline void provider_register(void)
{
	if (provider_try())
		__builtin_trap();
}

#endif
