/* SPDX-License-Identifier: MIT */
/*
 * Grace periods of invented machines: they begin and end every PERIOD_NS, for all CPUs together. A
 * retired object waits for the end of the one that begins next, as in the kernel.
 *
 * Callers: scale/src/.
 */
#ifndef SHEAF_SCALE_PERIODS_H
#define SHEAF_SCALE_PERIODS_H

#include <stdint.h>

/* Real ones last 10 ms and more. A sheaf is filled in some 20 us: this is long enough for many
 * sheaves of each CPU to wait, and keeps runs short. */
#define PERIOD_NS 300000

/* When what is retired now may be freed, in ns. */
uint64_t periods_end(void);
/* Make them the library's. */
void periods_register(void);
/* Call the library's functions whose grace period is over. */
void periods_pass(void);

#endif
