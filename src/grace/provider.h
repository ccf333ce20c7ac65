/* SPDX-License-Identifier: MIT */
/*
 * What a program says of its provider of grace periods, as the library keeps it.
 *
 * Callers: src/grace/grace.c, src/cache/.
 */
#ifndef SHEAF_GRACE_PROVIDER_H
#define SHEAF_GRACE_PROVIDER_H

#include "grace/grace.h"

/* Take it over. NULL if it can be used, else what is wrong with it, and what to do. */
const char *provider_read(struct sheaf_rcu_ops *ours, const struct sheaf_rcu_ops *given);

#endif
