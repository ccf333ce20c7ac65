/* SPDX-License-Identifier: MIT */
/* Reports at the first use: see os/linux/start.c. */
#ifndef SHEAF_OS_START_H
#define SHEAF_OS_START_H

/* Report which backend runs, if an option asks for it, and options that cannot be followed. Called
 * after os_init(), with no lock held. */
void os_tell_start(void);

#endif
