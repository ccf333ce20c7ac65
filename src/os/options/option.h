/* SPDX-License-Identifier: MIT */
/*
 * The table of options, for the files that read and print them. options.h has the list.
 *
 * Callers: src/os/options/.
 */
#ifndef SHEAF_OS_OPTION_H
#define SHEAF_OS_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/options/options.h"

struct os_option {
	const char *name; /* ends in '=' if a value follows */
	uint32_t *value;
	uint32_t least, most, preset;
	const char *meaning;
	char *text; /* of a TEXT; NULL: of another kind */
};

#define OS_ONE_OPTION(...) +1
#define OS_NR_OPTIONS	   (0 OS_OPTIONS(OS_ONE_OPTION, OS_ONE_OPTION, OS_ONE_OPTION))

/* In options.c. */
extern const struct os_option os_option_table[OS_NR_OPTIONS];

/* Does the word begin with this name? So do the kernel's old names, with slub_ for slab_. */
bool os_option_has_name(const char *word, size_t length, const char *name);
/* Read the word of one option, and set given[its index]. Returns false after a report that is
 * deferred. */
bool os_option_read(const char *word, size_t length, bool *given);

/* --- option_capacity.c: sheaf_capacity -------------------------------------------------------- */

/* Add the items that are valid of this list. Returns false after a report of others, deferred. */
bool os_option_add_capacities(const char *list, size_t length);

/* --- option_debug.c: slab_debug and its blocks ------------------------------------------------ */

/* Is the word slab_debug or, after such a word, another block of it? */
bool os_option_is_debug(const char *word, size_t length, bool after);
/* Add the word to the blocks, which src/debug/ parses; slab_debug without a block selects its usual
 * letters. Returns false after a report that is deferred. */
bool os_option_add_debug(const char *word, size_t length);

#endif
