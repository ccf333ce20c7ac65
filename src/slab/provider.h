/* SPDX-License-Identifier: MIT */
/*
 * What a program says of its provider of grace periods, as the library keeps it.
 *
 * Callers: src/slab/grace.c, src/cache/.
 */
#ifndef SHEAF_SLAB_PROVIDER_H
#define SHEAF_SLAB_PROVIDER_H

#include "slab/grace.h"

/* Take it over. NULL if it can be used, else what is wrong with it, and what to do. */
const char *provider_read(struct sheaf_rcu_ops *ours, const struct sheaf_rcu_ops *given);

#endif
