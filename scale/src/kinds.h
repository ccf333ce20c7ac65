/* SPDX-License-Identifier: MIT */
/* Which structure of the library an address belongs to. Callers: scale/src/. */
#ifndef SHEAF_SCALE_KINDS_H
#define SHEAF_SCALE_KINDS_H

#include <stdint.h>

#include "scale/src/tally.h"

enum tally_kind kind_of(uintptr_t address);

#endif
