/* SPDX-License-Identifier: MIT */
/* What one run prints: a line for each fact, `key value ...`, for scale/tools/sim.py. */
#ifndef SHEAF_SCALE_REPORT_H
#define SHEAF_SCALE_REPORT_H

#include <stdint.h>

void report_print(unsigned int cpus, uint64_t window_ps);

#endif
