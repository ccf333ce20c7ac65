/* SPDX-License-Identifier: MIT */
/*
 * An address space, as an emulator or a monitor of virtual machines has one: a maple tree of VMAs,
 * each a run of pages of one kind, from a cache with sheaves. Kernel: struct mm_struct, mmap(2) and
 * its family, without the pages themselves.
 *
 *     tree:   NULL | vma A | vma B |        NULL        | vma C | NULL
 *             low                   <- gaps are searched from the top     high
 *
 * Invariants:
 *  1. A VMA's start and end are what its range in the tree is; all are multiples of SPACE_PAGE.
 *  2. A VMA that is in the tree never changes: it is replaced by another one and freed after a grace
 *     period. So readers need no lock: what they found is true until they leave their section.
 *  3. No two neighbours are of the same kind, but where memory ran out when they became so.
 *  4. A call that fails has changed nothing: every address is what it was before.
 *
 * One thread at a time may change a space (its own, or under a lock of the caller's); any number may
 * meanwhile call space_fault(). Threads that change it are registered with the provider of grace
 * periods (<sheaf/rcu.h>), which must be there before the first call. Addresses, lengths: bytes.
 * Errors are negative: -EINVAL, -ENOMEM.
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
	struct vma *next; /* of those that are replaced: the writer's */
	unsigned long
		rest[16]; /* what else a kernel's has: it is as large, and copied as a whole */
};

struct space {
	struct maple_tree tree;
	unsigned long low, high; /* addresses that can be mapped: low ... high - 1 */
	unsigned long brk_start, brk;
	unsigned long vmas, pages; /* now */
};

/* What to map. */
struct space_request {
	unsigned long address; /* where; if not fixed a wish, and 0 is none */
	unsigned long length;
	unsigned long flags, file, page; /* as a VMA's */
	bool fixed;			 /* there, over what is there */
};

/* Make an empty space. brk begins at low. O(1). */
void space_init(struct space *space, unsigned long low, unsigned long high);

/* Free everything in it. Nobody may be reading it any more. The space is empty then. O(n). */
void space_destroy(struct space *space);

/* Map; returns the address: the wish if it is free, else the highest that is. O(log n). */
long space_map(struct space *space, const struct space_request *request);

/* Unmap what is mapped there, splitting VMAs at both ends. O(log n + VMAs). */
int space_unmap(struct space *space, unsigned long start, unsigned long length);

/* Replace the VMA_READ, WRITE and EXEC flags. -ENOMEM, too, if there is a hole in it. As above. */
int space_protect(struct space *space, unsigned long start, unsigned long length,
		  unsigned long flags);

/* Where the heap begins: space_brk() grows from there. O(1). */
void space_set_brk(struct space *space, unsigned long start);

/* Let the heap end at this address. Returns its end: as it was, if that is below its beginning. */
long space_brk(struct space *space, unsigned long end);

/*
 * The VMA of an address, or NULL. A reader's call, in an RCU section: the VMA is there until the
 * section ends. O(log n), no lock.
 */
const struct vma *space_fault(struct space *space, unsigned long address);

/* Make `to`, which is no space yet, a copy with VMAs of its own. O(n), all in bulk. */
int space_fork(struct space *to, struct space *from);

/* Make `fresh`, which is no space yet, with these mappings; then destroy `old`. */
int space_exec(struct space *fresh, struct space *old, const struct space_request *image,
	       unsigned int n);

/* Write what is mapped, as /proc/PID/maps has it. */
void space_print(struct space *space, FILE *out);

/* Prove the invariants 1, 3 (unless `split`) and the counts. Returns the number of faults, each told. */
int space_validate(struct space *space, bool split);

/* The cache of all spaces' VMAs. */
struct kmem_cache *vma_cache(void);

#endif
