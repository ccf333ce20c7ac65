/* SPDX-License-Identifier: MIT */
/* The header's inline functions as symbols, for callers that cannot inline C: see
 * src/kmalloc/symbols.c. */
#include "tree.h"

#define SYMBOL(name)                                                                               \
	extern __typeof__(name) symbol_of_##name SHEAF_SYMBOL(name)                                \
		__attribute__((alias(#name), visibility("default")))

SYMBOL(mas_error);
SYMBOL(mas_init);
SYMBOL(mas_is_active);
SYMBOL(mas_is_err);
SYMBOL(mas_is_paused);
SYMBOL(mas_is_start);
SYMBOL(mas_lock);
SYMBOL(mas_nomem_nofail);
SYMBOL(mas_reset);
SYMBOL(mas_set);
SYMBOL(mas_set_range);
SYMBOL(mas_unlock);
SYMBOL(mtree_lock_nested);
SYMBOL(xa_is_zero);
