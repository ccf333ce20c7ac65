/* SPDX-License-Identifier: MIT */
/*
 * An address space, as in an emulator or a virtual machine monitor: a maple tree of VMAs, each a
 * run of pages of one kind, from a cache with sheaves. Kernel: struct mm_struct, mmap(2) and
 * related calls, without the pages themselves.
 *
 *     tree:   NULL | vma A | vma B |        NULL        | vma C | NULL
 *             low                   <- gaps are searched from the top     high
 *
 * Invariants:
 *  1. A VMA's start and end equal its range in the tree; all are multiples of SPACE_PAGE.
 *  2. A VMA in the tree never changes: another VMA replaces it, and it is freed after a grace
 *     period. So readers need no lock: a VMA that they found is valid until they leave their
 *     section.
 *  3. No two neighbours are of the same kind, unless there was no memory to join them.
 *  4. A call that fails changes nothing.
 *
 * One thread at a time may change a space (its own, or under a lock of the caller's); any number
 * may meanwhile call space_fault(). Threads that change it are registered with the provider of
 * grace periods (<sheaf/rcu.h>), which must be there before the first call. Addresses, lengths:
 * bytes. Errors are negative: -EINVAL, -ENOMEM.
 */
#ifndef VMA_SPACE_H
#define VMA_SPACE_H

#include <sheaf/maple_tree.h>
#include <stdbool.h>
#include <stdio.h>

#define SPACE_PAGE 4096ul

/* As PROT_READ and so on. */
#define VMA_READ   1u
#define VMA_WRITE  2u
#define VMA_EXEC   4u
#define VMA_SHARED 8u

struct space;

struct vma {
	unsigned long start, end; /* end is the first address behind it */
	unsigned long flags;	  /* VMA_ */
	unsigned long file;	  /* a number of the caller's; 0: anonymous memory */
	unsigned long page;	  /* of the file, at start; anonymous: 0 */
	struct space *space;
	struct vma *next;	/* links replaced VMAs: the writer's */
	unsigned long rest[16]; /* in place of the rest of a kernel's VMA */
};

struct space {
	struct maple_tree tree;
	unsigned long low, high; /* addresses that can be mapped: low ... high - 1 */
	unsigned long brk_start, brk;
	unsigned long vmas, pages; /* now */
};

/* What to map. */
struct space_request {
	unsigned long address; /* where; if not fixed, a hint; 0: none */
	unsigned long length;
	unsigned long flags, file, page; /* as a VMA's */
	bool fixed;			 /* exactly there, in place of what is there */
};

/* Create an empty space. brk begins at low. O(1). */
void space_init(struct space *space, unsigned long low, unsigned long high);

/* Free everything in the space, which is then empty. No thread may be reading it. O(n). */
void space_destroy(struct space *space);

/* Map, and return the address: the requested one if it is free, else the highest free one. O(log
 * n). */
long space_map(struct space *space, const struct space_request *request);

/* Unmap everything in the range, splitting VMAs at both ends. O(log n + VMAs). */
int space_unmap(struct space *space, unsigned long start, unsigned long length);

/* Replace the flags VMA_READ, VMA_WRITE and VMA_EXEC. Also returns -ENOMEM if the range has a hole.
 * O(log n + VMAs). */
int space_protect(struct space *space, unsigned long start, unsigned long length,
		  unsigned long flags);

/* Set the start of the heap, from which space_brk() grows it. O(1). */
void space_set_brk(struct space *space, unsigned long start);

/* Set the end of the heap. Returns the end, which is unchanged if the address is below the heap's
 * start. */
long space_brk(struct space *space, unsigned long end);

/*
 * Return the VMA of an address, or NULL. For readers, in an RCU section: the VMA is valid until the
 * section ends. O(log n), no lock.
 */
const struct vma *space_fault(struct space *space, unsigned long address);

/* Initialise `to` as a copy with its own VMAs. O(n), all in bulk. */
int space_fork(struct space *to, struct space *from);

/* Initialise `fresh` with these mappings; then destroy `old`. */
int space_exec(struct space *fresh, struct space *old, const struct space_request *image,
	       unsigned int n);

/* Write the mappings in the format of /proc/PID/maps. */
void space_print(struct space *space, FILE *out);

/* Check the invariants 1, 3 (unless `split`) and the counts. Returns the number of faults, each of
 * which is reported. */
int space_validate(struct space *space, bool split);

/* The cache of all spaces' VMAs. */
struct kmem_cache *vma_cache(void);

#endif
