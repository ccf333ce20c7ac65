/* SPDX-License-Identifier: MIT */
/*
 * Sleeping until a word changes, in linux/lock.c: like os/lock.h, but for any condition.
 *
 * A waiting thread reads the word, tests its condition, and waits with the value that it read. A
 * thread that makes the condition true changes the word, then wakes. A change between read and wait
 * is noticed, so none is lost.
 *
 * Callers: every layer; no lock may be held. errno is preserved.
 */
#ifndef SHEAF_OS_WAIT_H
#define SHEAF_OS_WAIT_H

#include <stdint.h>

/* Sleep while *word is `value`, until woken, or for at most ms milliseconds (0: no limit); may
 * return early. */
void os_wait(uint32_t *word, uint32_t value, uint32_t ms);
/* Wake one thread that sleeps on the word. */
void os_wake(uint32_t *word);

#endif
