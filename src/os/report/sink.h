/* SPDX-License-Identifier: MIT */
/*
 * The descriptor that reports are written to: the file of SHEAF_OPTIONS=report=PATH, or standard
 * error.
 *
 *   a piece of text, whole lines --> file --(it is refused, from now on)--> standard error
 *
 * The file is opened at the first use, under a descriptor with a high number. A program may close
 * all descriptors and then open files of its own under the same numbers. So each write first
 * checks that the descriptor is still that file, by device and inode, and opens the file again if
 * it is not. If the path contains %p, which stands for the PID, a forked child opens its own file
 * at its first report.
 *
 * Invariants
 *  SINK-W1. A write never ends the program: SIGPIPE, which a pipe without a reader raises, and
 *      SIGXFSZ, which a file beyond its limit raises, are blocked and consumed. This holds for all
 *      text that the library writes, to any descriptor.
 *  SINK-W2. The caller keeps text that a non-blocking descriptor does not accept now (report.h).
 *      Text that cannot be written at all is lost.
 *
 * Locks: none. Callers: os/ for reports; src/cache/ for the first use; src/stats/ to write.
 */
#ifndef SHEAF_OS_SINK_H
#define SHEAF_OS_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "os/compiler.h"

/* At the first use, with no lock held: open the file that the options name. */
void os_sink_open(void) OS_COLD;

/* Write. Returns how many bytes need not be written again; 0: the descriptor accepts nothing
 * now. */
size_t os_sink_write(const char *text, size_t length) OS_COLD;
/* Write a line after which the program ends: waits up to a second if necessary. */
void os_sink_write_last(const char *text, size_t length) OS_COLD;

/* write(), again if a signal interrupts it, but no SIGPIPE and no SIGXFSZ. -1 with errno. */
ssize_t os_write_quietly(int file, const char *text, size_t length) OS_COLD;

/* Does the descriptor accept a piece immediately? With may_wait, also true for a terminal with room
 * for a byte. */
bool os_sink_has_room(bool may_wait) OS_COLD;
/* Did it accept nothing a moment ago? Then it is not asked again for 10 ms: each slow call would
 * make a system call as long as lines are kept. */
bool os_sink_was_full(bool may_wait) OS_COLD;

/* In a forked child. */
void os_sink_after_fork(void);

#endif
