/* SPDX-License-Identifier: MIT */
/*
 * A small process's address space from its exec to its exit, shown at each step.
 *
 *     vma
 *     cc -O2 *.c -o vma $(pkg-config --cflags --libs libsheaf-maple libsheaf-urcu liburcu-memb) -pthread
 *
 * This example shows:
 *   - a flavour's header and <sheaf/rcu.h>; sheaf_urcu_register() once
 *   - mapping the same kind of memory again makes a VMA longer; unmapping in its middle makes two
 *   - a reader finds the VMA of an address under rcu_read_lock() alone, while another thread maps
 *   - fork copies tree and VMAs in bulk; exec makes the new space before it destroys the old one
 */
#include <urcu.h>

#include <sheaf/rcu.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "space.h"

#define LOW  0x10000ul
#define HIGH 0x7ffffffff000ul
#define MIB  (1ul << 20)

static const struct space_request image[] = {
	{0x400000, 0x2000, VMA_READ | VMA_EXEC, 1, 0, true},  /* a program: its code */
	{0x402000, 0x1000, VMA_READ, 1, 2, true},	      /* constants */
	{0x403000, 0x1000, VMA_READ | VMA_WRITE, 1, 3, true}, /* data */
	{0, 0x21000, VMA_READ | VMA_WRITE, 0, 0, false},      /* the stack */
	{0, 0x180000, VMA_READ | VMA_EXEC, 2, 0, false},      /* a library */
	{0, 0x4000, VMA_READ | VMA_WRITE, 2, 0x180, false},   /* its data */
};

static void check(long result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "vma: %s: error %ld\n", what, result);
		exit(1);
	}
}

static void show(const char *title, struct space *space)
{
	printf("%s\n", title);
	space_print(space, stdout);
	printf("%lu VMAs, %lu KiB\n\n", space->vmas, space->pages * SPACE_PAGE >> 10);
	if (space_validate(space, false))
		exit(1);
}

static long map_memory(struct space *space, unsigned long length)
{
	struct space_request request = {.length = length, .flags = VMA_READ | VMA_WRITE};
	long address = space_map(space, &request);

	check(address, "map");
	return address;
}

/* --- a reader next to the thread that maps ------------------------------------------------------- */

static atomic_bool stop;
static atomic_ulong faults;

static void *reader(void *argument)
{
	struct space *space = argument;
	unsigned long wrong = 0;

	rcu_register_thread();
	while (!atomic_load(&stop)) {
		const struct vma *vma;

		rcu_read_lock();
		vma = space_fault(space, 0x400123);
		wrong += !vma || vma->start != 0x400000 || vma->file != 1;
		rcu_read_unlock();
		atomic_fetch_add(&faults, 1);
	}
	rcu_unregister_thread();
	return (void *)wrong;
}

/* Map and unmap until the reader has looked some times. */
static void map_beside_reader(struct space *space)
{
	pthread_t thread;
	void *wrong;

	if (pthread_create(&thread, NULL, reader, space))
		exit(1);
	while (atomic_load(&faults) < 1000) {
		long address = map_memory(space, MIB);

		check(space_unmap(space, (unsigned long)address, MIB), "unmap");
	}
	atomic_store(&stop, true);
	pthread_join(thread, &wrong);
	printf("meanwhile a reader found %s\n\n", wrong ? "WRONG VMAs" : "the right VMA each time");
	if (wrong)
		exit(1);
}

static void live(struct space *space)
{
	unsigned long heap = 0x500000, at;

	space_set_brk(space, heap);
	check(space_brk(space, heap + 3 * MIB), "brk");
	at = (unsigned long)map_memory(space, 4 * MIB);
	map_memory(space, 4 * MIB);
	show("heap grown; two mappings of 4 MiB are one VMA:", space);
	check(space_unmap(space, at + MIB, 2 * MIB), "unmap");
	check(space_protect(space, at, MIB / 2, VMA_READ), "protect");
	check(space_brk(space, heap + MIB), "brk");
	show("2 MiB unmapped, half a MiB made read-only, the heap shrunk:", space);
}

int main(void)
{
	struct space parent, child, fresh;

	rcu_register_thread();
	if (sheaf_urcu_register(0))
		return 1;
	space_init(&fresh, LOW, HIGH);
	check(space_exec(&parent, &fresh, image, 6), "exec");
	show("a program:", &parent);
	live(&parent);
	map_beside_reader(&parent);
	check(space_fork(&child, &parent), "fork");
	check(space_unmap(&child, 0x500000, MIB), "unmap");
	show("a forked child has its own VMAs; its heap unmapped:", &child);
	check(space_exec(&fresh, &child, image, 3), "exec");
	show("and it is another program:", &fresh);
	space_destroy(&fresh);
	space_destroy(&parent);
	kmem_cache_destroy(vma_cache());
	rcu_unregister_thread();
	return 0;
}
