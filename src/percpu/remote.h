/* SPDX-License-Identifier: MIT */
/*
 * Objects of other nodes on their way home. A CPU collects them in sheaves, one for each node
 * (those of nodes whose numbers are equal modulo BARN_REMOTE_CELLS take turns). A full one goes
 * into that node's barn, for an empty one if there is any; if that barn has no room, its objects
 * return to their slabs. So one object costs an exchange of a word of this CPU, instead of words of
 * its slab that other CPUs write, and often the lock of its node.
 *
 * The sheaf stays in the last cells of the CPU's slot, which have a line of their own. Its cell is
 * in transit while a thread adds an object: a drain waits for that, another thread does not.
 *
 * Callers: src/cache/.
 */
#ifndef SHEAF_PERCPU_REMOTE_H
#define SHEAF_PERCPU_REMOTE_H

#include "percpu/sheaf.h"

/* Free an object of another node. Returns false if it must go to its slab. */
bool sheaf_free_remote(struct sheaf_cache *cache, void *object);

#endif
