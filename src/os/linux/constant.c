/* SPDX-License-Identifier: MIT */
/*
 * Which addresses are constants: those in segments of the program's own file that cannot be
 * written. The program stays loaded as long as the process lives, so its constants can be used
 * without a copy. Memory from dlopen() may be unloaded and does not count as constant, like a
 * module's memory in the kernel. So the segments are looked up once, and no dlopen() or dlclose()
 * matters.
 */
#include <link.h>

#include "os/atomic.h"
#include "os/machine.h"

#define SEGMENTS 8 /* of a program: two or three. Constants in others are copied */

struct segments {
	unsigned int n;
	struct {
		uintptr_t from, to;
	} of[SEGMENTS];
};

static struct {
	uint32_t taken, ready;
	struct segments segments;
} constants;

/* The first object is the program. */
static int look_at_program(struct dl_phdr_info *program, size_t size, void *found)
{
	struct segments *segments = found;

	(void)size;
	for (unsigned int i = 0; i < program->dlpi_phnum && segments->n < SEGMENTS; i++) {
		const ElfW(Phdr) *header = &program->dlpi_phdr[i];

		if (header->p_type != PT_LOAD || header->p_flags & PF_W)
			continue;
		segments->of[segments->n].from = program->dlpi_addr + header->p_vaddr;
		segments->of[segments->n].to = segments->of[segments->n].from + header->p_memsz;
		segments->n++;
	}
	return 1;
}

static bool is_in_segments(const struct segments *segments, const void *address)
{
	for (unsigned int i = 0; i < segments->n; i++)
		if ((uintptr_t)address >= segments->of[i].from &&
		    (uintptr_t)address < segments->of[i].to)
			return true;
	return false;
}

/* Called with no lock of the library held: the loader has locks of its own. */
bool os_is_constant(const void *address)
{
	struct segments found = {0};

	if (os_load_acquire(&constants.ready))
		return is_in_segments(&constants.segments, address);
	dl_iterate_phdr(look_at_program, &found);
	if (!os_exchange(&constants.taken, 1)) {
		constants.segments = found;
		os_store_release(&constants.ready, 1);
	}
	return is_in_segments(&found, address);
}
