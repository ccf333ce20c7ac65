/* SPDX-License-Identifier: MIT */
/*
 * The control socket: other processes of the user may ask this one, with SHEAF_OPTIONS=control, or
 * while it is awake.
 *
 *   asker --connect, one line--> abstract socket libsheaf-control-PID --> some call of the library
 *         <------- a line, and a file in memory with the answer -------'
 *
 * The library has no thread, so slow calls check the socket before they return, at most one thread
 * every CHANNEL_MS. No thread waits for the asker: a later call reads the rest of the line, and an
 * answer is a file, passed by one message that fits into an empty socket. Nobody has to remove the
 * name of an abstract socket. Only the process's user and root get an answer. Users without a
 * number in the process's user namespace all appear with the same number, so that number gets no
 * answer.
 *
 * Without the option there is no socket. The tool wakes such a process: it stores CHANNEL_WOKEN in
 * os_channel_is_on (tools/sheaf_tool/wake.py), with the rights of a debugger, and a later slow call
 * opens the socket. One that nobody asked for CHANNEL_WOKEN_MS is closed. A note in the ELF file
 * says where the word is:
 *
 *   owner "libsheaf", type CHANNEL_NOTE | 8 bytes: the word's address minus that of these bytes
 *
 * Invariants
 *  CHANNEL-N1. One thread at a time is between os_channel_enter() and os_channel_leave(). It is not
 *      cancelled there.
 *  CHANNEL-N2. An asker that has sent no whole line after CHANNEL_PATIENCE is dropped. Argued: the
 *      silent asker of tools/tests/test_control.py is.
 *  CHANNEL-N3. A descriptor is used only while it still is the same file: a program may close all
 *      its descriptors.
 *  CHANNEL-N4. A forked child has a socket of its own, from its first slow call on, or none
 *      if its parent was woken, and no descriptor of its parent's.
 *
 * Locks: none. Callers: src/control/; src/cache/ for start and fork.
 */
#ifndef SHEAF_OS_CHANNEL_H
#define SHEAF_OS_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "os/compiler.h"
#include "os/file.h"

#define CHANNEL_MS	 10
#define CHANNEL_PATIENCE 1000 /* ms */
#define CHANNEL_LINE	 256
#define CHANNEL_WOKEN_MS 60000

/* The layout of the note and the meaning of the word: others get another number. */
#define CHANNEL_NOTE "0x5eaf0001"

/* Above 0, the process has a socket, or needs one: slow calls must check. Below 0: an error number,
 * why there is none. */
enum {
	CHANNEL_OFF,
	CHANNEL_BY_OPTION,
	CHANNEL_WOKEN = 0x656b6177,
};
extern int32_t os_channel_is_on __attribute__((visibility("hidden")));

/* At the first use, with no lock held: begin to listen. */
void os_channel_open(void) OS_COLD;
/* In a forked child. */
void os_channel_after_fork(void);

/* False: it is too early to check again, or another thread is checking. */
bool os_channel_enter(void);
void os_channel_leave(void);
/* The line of a request, without its line feed; the caller may change it. NULL: there is none
 * now. */
char *os_channel_request(void);
/* A file for the answer; NULL: there is none. */
const struct os_descriptor *os_channel_file(void);
/* Send the file, if there is one, and "ok", or "error WHY", and close file and connection. */
void os_channel_answer(const char *error);

#endif
