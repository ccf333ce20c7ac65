/* SPDX-License-Identifier: MIT */
/*
 * Sleeping until a word changes, in linux/lock.c: what os/lock.h does for its own word, for other conditions.
 *
 * Who waits reads the word, looks at its condition, and waits with what it read; who makes the condition
 * true changes the word, then wakes. A change between read and wait is seen, so none is lost.
 *
 * Callers: every layer; no lock may be held. errno is preserved.
 */
#ifndef SHEAF_OS_WAIT_H
#define SHEAF_OS_WAIT_H

#include <stdint.h>

/* Sleep while *word is `value`, until woken, or for so many ms (0: without end); may return for no
 * reason. */
void os_wait(uint32_t *word, uint32_t value, uint32_t ms);
/* Wake one thread that sleeps on the word. */
void os_wake(uint32_t *word);

#endif
