/* SPDX-License-Identifier: MIT */
/* What of the library an address belongs to. Callers: sim/scale/. */
#ifndef SHEAF_SIM_SCALE_KINDS_H
#define SHEAF_SIM_SCALE_KINDS_H

#include <stdint.h>

#include "sim/scale/tally.h"

enum tally_kind kind_of(uintptr_t address);

#endif
