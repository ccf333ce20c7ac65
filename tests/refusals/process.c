/* SPDX-License-Identifier: MIT */
/* Scenes: the process. */
#include "refusals.h"
const struct scene process_scenes[] = {{.name = NULL}};
