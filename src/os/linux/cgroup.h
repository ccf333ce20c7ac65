/* SPDX-License-Identifier: MIT */
/*
 * What the process's control group grants: memory, and the time of so many CPUs. A group has no
 * more than those around it, up to the root of the hierarchy that this process sees. Memory of both
 * versions, CPUs of version 2.
 *
 *   /proc/self/cgroup:  0::/a/b       memory.max, memory.high, cpu.max in ROOT/a/b, ROOT/a, ROOT
 *                       4:memory:/c   memory.limit_in_bytes in ROOT/memory/c, ROOT/memory
 *
 * Locks: none; one thread at a time asks about this process: at first use, then in a round of
 * housekeeping. Callers: src/os/linux/, tests.
 */
#ifndef SHEAF_OS_LINUX_CGROUP_H
#define SHEAF_OS_LINUX_CGROUP_H

#include <stddef.h>

#define CGROUP_ROOT    "/sys/fs/cgroup"
#define CGROUP_LONGEST 1024 /* bytes of a path; groups with longer ones are not looked at */

/* For the text of /proc/self/cgroup: bytes of memory, and CPUs, rounded up; SIZE_MAX without a
 * limit. errno may change. */
size_t cgroup_memory_of(const char *root, const char *groups);
size_t cgroup_cpus_of(const char *root, const char *groups);

/* That text for this process, now, until the next of these calls; empty if it cannot be read. */
const char *cgroup_list(void);
/* Memory and CPUs of this process, now. */
size_t cgroup_memory(void);
size_t cgroup_cpus(void);

#endif
