/* SPDX-License-Identifier: MIT */
/*
 * The library's copy of a program's description of its provider of grace periods.
 *
 * Callers: src/grace/all.c, src/cache/.
 */
#ifndef SHEAF_GRACE_PROVIDER_H
#define SHEAF_GRACE_PROVIDER_H

#include "grace/grace.h"

/* Copy it. Returns NULL if it can be used; otherwise a text that says what is wrong with it, and
 * what to do. */
const char *provider_read(struct sheaf_rcu_ops *ours, const struct sheaf_rcu_ops *given);

#endif
