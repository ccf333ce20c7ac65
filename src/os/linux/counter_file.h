/* SPDX-License-Identifier: MIT */
/*
 * The life of the file /dev/shm/libsheaf-PID, readable by its owner only: created, extended with
 * holes, removed. shared.c maps it.
 *
 * The file is removed at exit. A file that a killed process left is removed by the next process
 * with its PID, or by `sheaf info`. A PID is not enough to identify the owner: another PID
 * namespace may have the same one. So the process holds a flock() on the file for as long as it
 * uses it, and others must take the lock before they remove the file. The lock belongs to the open
 * file description, and the mapping of the head keeps that alive, whether or not the program closes
 * the descriptor. A forked child keeps the mapping until it has replaced it with its own memory.
 *
 * The descriptor stays open (os/descriptor.h), for a process that changes its user or its root
 * directory later and could not open the file again. It cannot remove the file either: then it
 * gives back the memory, and the name goes as that of a killed process does.
 *
 * Invariants
 *  COUNTER_FILE-C1. Only the process that created a file, or one that holds its lock exclusively,
 *      unlinks it. Argued: counter_file_remove() compares device and inode with those of the file
 *      that it created; remove_left_over() holds the lock.
 *
 * Locks: none; callers hold OS_RANK_CACHES, or are the only thread after fork;
 * counter_file_fill() needs neither. Callers: src/os/linux/shared.c.
 */
#ifndef SHEAF_OS_LINUX_COUNTER_FILE_H
#define SHEAF_OS_LINUX_COUNTER_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Extend the file to this size; its first `head` bytes have memory. It is created, unless it should
 * exist already. Returns its descriptor, which stays open, or -1 after a report. */
int counter_file_extend(size_t size, size_t head, bool exists);
/* Give memory to n holes of this size, `step` bytes apart. False after a report. */
bool counter_file_fill(size_t offset, size_t size, size_t step, unsigned int n);
/* Remove the file, if there is one. */
void counter_file_remove(void);
/* In a forked child: the file belongs to the parent. */
void counter_file_forget(void);

#endif
