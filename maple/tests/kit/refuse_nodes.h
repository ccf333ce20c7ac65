/* SPDX-License-Identifier: MIT */
/*
 * Refuses nodes, one by one. The linker puts these calls in place of the library's
 * (--wrap=nodes_get, --wrap=nodes_alloc).
 */
#ifndef TESTS_MAPLE_REFUSE_NODES_H
#define TESTS_MAPLE_REFUSE_NODES_H

#include <errno.h>

#include "../../src/tree.h"

int __real_nodes_get(struct ma_state *mas, unsigned int n, gfp_t gfp);
int __real_nodes_alloc(unsigned int n, void **nodes, gfp_t gfp);
int __wrap_nodes_get(struct ma_state *mas, unsigned int n, gfp_t gfp);
int __wrap_nodes_alloc(unsigned int n, void **nodes, gfp_t gfp);

static unsigned int refuse_in; /* this one is refused; 0: none */
static bool refuse_all;
static bool refused;
static unsigned long refusals;
static void (*meanwhile)(
	void); /* called once, when nodes are requested by a caller that may wait */

static bool refuse(void)
{
	if (!refuse_all && (refuse_in == 0 || --refuse_in > 0))
		return false;
	refused = true;
	refusals++;
	return true;
}

int __wrap_nodes_get(struct ma_state *mas, unsigned int n, gfp_t gfp)
{
	void (*call)(void) = gfp & __GFP_DIRECT_RECLAIM ? meanwhile : NULL;

	if (call) {
		meanwhile = NULL;
		call();
	}
	if (refuse()) {
		mas->node_request = n;
		return -ENOMEM;
	}
	return __real_nodes_get(mas, n, gfp);
}

int __wrap_nodes_alloc(unsigned int n, void **nodes, gfp_t gfp)
{
	return refuse() ? -ENOMEM : __real_nodes_alloc(n, nodes, gfp);
}

#endif
