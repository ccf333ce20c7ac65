/* SPDX-License-Identifier: MIT */
/* libsheaf with its common operations in place. */
#define BENCH_IN_PLACE
#include "sheaf.h"
