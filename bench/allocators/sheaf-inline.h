/* SPDX-License-Identifier: MIT */
/* libsheaf in a program that defines SHEAF_INLINE: the common operations make no call. */
#define SHEAF_INLINE
#include "sheaf.h"
