/* SPDX-License-Identifier: MIT */
/* What the files of this folder offer each other. Callers: src/os/linux/, sim/os/, tests. */
#ifndef SHEAF_OS_LINUX_LINUX_H
#define SHEAF_OS_LINUX_LINUX_H

#include <stdbool.h>
#include <stddef.h>

#include "os/section.h"

/* --- topology.c: CPUs, nodes and last-level caches, from /sys --------------------------------- */

/* Fill in nr_cpus, nr_nodes, node_of_row, `cache` and `allowed` of `os`. Returns false if no
 * bound of the CPU numbers is known. */
bool topology_find(void);

/* --- backend.c -------------------------------------------------------------------------------- */

/* May this release of the kernel, as uname() has it, lose aborts of sections on AArch64? */
bool release_loses_aborts(const char *release);
/* Are CPU numbers known to be below os.nr_cpus? */
void backend_choose(bool rows_known);
/* What a row is; once it is known which nodes have CPUs. */
void backend_choose_rows(void);

/* --- loaded.c --------------------------------------------------------------------------------- */

/* The program is static, and not position-independent. */
bool os_is_static(void);

/* --- thread.c --------------------------------------------------------------------------------- */

/* Find os.thread_offset. */
void thread_find_number(void);

/* --- cgroup.c: limits of the process's control group ------------------------------------------ */

#define CGROUP_ROOT    "/sys/fs/cgroup"
#define CGROUP_LONGEST 1024 /* bytes of a path; groups with longer ones are ignored */

/* For the text of /proc/self/cgroup: bytes of memory, and CPUs, rounded up; SIZE_MAX without a
 * limit. errno may change. */
size_t cgroup_memory_of(const char *root, const char *groups);
size_t cgroup_cpus_of(const char *root, const char *groups);
/* That text for this process, valid until the next call; empty if it cannot be read. One thread at
 * a time: in a round of housekeeping. */
const char *cgroup_list(void);

/* --- shared.c: counters in memory that other processes read ----------------------------------- */

/* Map the counters of these rows; size includes nobody's row and the row of handles. Returns false
 * if there is no memory. */
bool shared_map(char *rows, size_t size);
/* The last n areas mapped this way have no rows after all; the caller unmaps their addresses. */
void shared_unmap_last(unsigned int n);
/* In a forked child: stop using the parent's counters. Returns false if the child cannot have its
 * own, and must not count. */
bool shared_after_fork(void);

/* --- counter_file.c: the file that shared.c maps ---------------------------------------------- */

/* Extend the file to this size; its first `head` bytes have memory. It is created, unless it should
 * exist already. Returns its descriptor, which stays open, or -1 after a report. */
int counter_file_extend(size_t size, size_t head, bool exists);
/* Give memory to n holes of this size, `step` bytes apart. False after a report. */
bool counter_file_fill(size_t offset, size_t size, size_t step, unsigned int n);
/* Remove the file, if there is one. */
void counter_file_remove(void);
/* In a forked child: the file belongs to the parent. */
void counter_file_forget(void);

/* --- template.c: rows that are copies of one slot --------------------------------------------- */

#define ROW_BYTES ((size_t)1 << ROW_SHIFT)

/* One row. */
void template_fill(char *row, const struct slot *template);

/* A file with copies of this row, for n rows of nr_areas areas; the caller closes it. */
struct template_file {
	int file; /* -1: it could not be created */
	size_t rows;
};
struct template_file template_file(const char *row, size_t n, unsigned int nr_areas);
/* Map n rows of it over these addresses. Returns false if refused; some may then be mapped. */
bool template_map(const struct template_file *template, char *rows, size_t n);

#endif
