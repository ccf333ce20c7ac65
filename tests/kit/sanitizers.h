/* SPDX-License-Identifier: MIT */
/* Which sanitizer the test is built with: 0 or 1. Some versions of clang define no macro. */
#ifndef SHEAF_TESTS_SANITIZERS_H
#define SHEAF_TESTS_SANITIZERS_H

#include <sheaf/slab.h>

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

#endif
