/* SPDX-License-Identifier: MIT */
/*
 * Objects that sheaves took from slabs and gave to slabs, counted on their way. The program is linked
 * with --wrap=slab_take and --wrap=slab_give.
 */
#ifndef SHEAF_SIM_KIT_SLABS_H
#define SHEAF_SIM_KIT_SLABS_H

#include <stdint.h>

extern uint64_t slabs_taken, slabs_given;

#endif
