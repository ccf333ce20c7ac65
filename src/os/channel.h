/* SPDX-License-Identifier: MIT */
/*
 * The control socket: with SHEAF_OPTIONS=control, other processes of the user may ask this one.
 *
 *   asker --connect, one line--> abstract socket libsheaf-control-PID --> some call of the library
 *         <------- a line, and a file in memory with the answer -------'
 *
 * The library has no thread, so slow calls look at the socket at their end, one thread at most each
 * CHANNEL_MS. Nothing waits for the asker: a later call reads what it has not sent yet, and an
 * answer is a file, passed by one message that fits an empty socket. Nobody has to remove the name
 * of an abstract socket. Only the process's user and root get an answer.
 *
 * Invariants
 *  N1. One thread at a time is between os_channel_enter() and os_channel_leave(). It is not
 *      cancelled there.
 *  N2. An asker that has sent no whole line after CHANNEL_PATIENCE is dropped.
 *  N3. A descriptor is used only while it is what it was: a program may close all it has.
 *  N4. A forked child has a socket of its own, from its first slow call on.
 *
 * Locks: none. Callers: src/control/; src/cache/ for start and fork.
 */
#ifndef SHEAF_OS_CHANNEL_H
#define SHEAF_OS_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANNEL_MS	 10
#define CHANNEL_PATIENCE 1000 /* ms */
#define CHANNEL_LINE	 256

/* The process has a socket, or wants one: somebody must look. */
extern uint32_t os_channel_is_on __attribute__((visibility("hidden")));

/* At the first use, with no lock held: begin to listen. */
void os_channel_open(void) __attribute__((cold));
/* In a forked child. */
void os_channel_after_fork(void);

/* False: it is too early to look, or another thread does. */
bool os_channel_enter(void);
void os_channel_leave(void);
/* A line that somebody asked, without its end; false: there is none now. */
bool os_channel_request(char line[CHANNEL_LINE]);
/* A file for the answer; -1: there is none. */
int os_channel_file(void);
/* Hand it over, with a line without its end that says how it went, and close both. */
void os_channel_answer(int file, const char *status);

#endif
