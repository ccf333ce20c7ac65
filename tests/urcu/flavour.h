/* SPDX-License-Identifier: MIT */
/* The flavour of liburcu that a test is built for: FLAVOUR_QSBR, _BP, _MB, or memb. */
#ifndef SHEAF_TESTS_FLAVOUR_H
#define SHEAF_TESTS_FLAVOUR_H

#include "kit/sanitizers.h"

#if !HAS_ASAN /* urcu-bp.h aligns less than it says */
#define _LGPL_SOURCE
#endif
#ifdef FLAVOUR_QSBR
#include <urcu-qsbr.h>
#elif defined(FLAVOUR_BP)
#include <urcu-bp.h>
#elif defined(FLAVOUR_MB)
#define RCU_MB
#include <urcu.h>
#else
#include <urcu.h>
#endif

#include <stdbool.h>

/* Make grace periods of others wait for this thread, or not. Only QSBR needs it. */
static inline void online(bool yes)
{
#ifdef FLAVOUR_QSBR
	if (yes)
		rcu_thread_online();
	else
		rcu_thread_offline();
#else
	(void)yes;
#endif
}

#endif
