/* SPDX-License-Identifier: MIT */
/* A second flavour in the program of flavours.c, whose header would not go into the same file. */
#ifndef SHEAF_TESTS_FLAVOURS_H
#define SHEAF_TESTS_FLAVOURS_H

struct sheaf_rcu_ops;

int bp_register(void);
const struct sheaf_rcu_ops *bp_provider(void);
void bp_lock(void);
void bp_unlock(void);

#endif
