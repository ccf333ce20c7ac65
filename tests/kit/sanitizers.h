/* SPDX-License-Identifier: MIT */
/* Which sanitizer the test is built with: 0 or 1. Some versions of clang define no macro. */
#ifndef SHEAF_TESTS_SANITIZERS_H
#define SHEAF_TESTS_SANITIZERS_H

#include <sheaf/slab.h>
#include <signal.h>

/* It changes errno where it finds a race, even one that is suppressed. */
#define HAS_TSAN SHEAF_TSAN

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifndef HAS_ASAN
#define HAS_ASAN 0
#endif

/*
 * For a loop that waits for signal handlers. The thread sanitizer's runtime delays handlers, and
 * calls them with all signals blocked. If it does so again inside such a handler, it forgets the
 * thread's own mask, and all signals stay blocked.
 */
static inline void keep_signals_unblocked(void)
{
	sigset_t none;

	sigemptyset(&none);
	if (HAS_TSAN)
		pthread_sigmask(SIG_SETMASK, &none, NULL);
}

#endif
