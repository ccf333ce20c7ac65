/* SPDX-License-Identifier: MIT */
/*
 * Counts the objects that sheaves take from slabs and return to slabs. The program is linked with
 * --wrap=slab_take and --wrap=slab_give.
 */
#ifndef SHEAF_SIM_KIT_SLABS_H
#define SHEAF_SIM_KIT_SLABS_H

#include <stdint.h>

extern uint64_t slabs_taken, slabs_given;

#endif
