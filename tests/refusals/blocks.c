/* SPDX-License-Identifier: MIT */
/* Scenes: blocks by size, memory pools, groups. */
#include "refusals.h"
const struct scene block_scenes[] = {{.name = NULL}};
