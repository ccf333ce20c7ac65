/* SPDX-License-Identifier: MIT */
/* What is said at the first use: see os/linux/start.c. */
#ifndef SHEAF_OS_START_H
#define SHEAF_OS_START_H

/* Report what runs, if an option says so, and options that cannot be obeyed. After os_init(), with
 * no lock held. */
void os_tell_start(void);

#endif
