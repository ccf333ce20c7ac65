/* SPDX-License-Identifier: MIT */
/*
 * Grace periods for a program of one thread, which is no reader between two operations: they pass after
 * 64 of these, so that nodes come back while they are warm. So was the kernel's tree measured whose
 * figures stand beside ours.
 */
#ifndef BENCH_MAPLE_AT_ONCE_HPP
#define BENCH_MAPLE_AT_ONCE_HPP

#include <sheaf/rcu.h>

class at_once
{
      public:
	static bool begin()
	{
		static const sheaf_rcu_ops ops = {"one thread", call, barrier, nullptr, nullptr};

		return sheaf_rcu_register(&ops) == 0;
	}

	/* Between two operations. */
	static void operation()
	{
		if (++operations % 64 == 0)
			pass();
	}

	/* A callback may call for the next. */
	static void pass()
	{
		sheaf_rcu_head *head = called;

		called = nullptr;
		while (head) {
			sheaf_rcu_head *const next = head->next;

			head->func(head);
			head = next;
		}
	}

      private:
	static void call(sheaf_rcu_head *head, void (*func)(sheaf_rcu_head *))
	{
		head->func = func;
		head->next = called;
		called = head;
	}

	static void barrier()
	{
		pass();
	}

	static inline sheaf_rcu_head *called;
	static inline unsigned int operations;
};

#endif
