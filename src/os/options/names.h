/* SPDX-License-Identifier: MIT */
/*
 * Lists in options that give values to caches by name: slab_debug, sheaf_capacity. The first entry
 * that matches a cache applies, and is marked, so that names nobody has are reported at exit.
 *
 * Locks: none; lists are made at the first use, and only marks change after that. Callers:
 * src/os/options/, src/debug/parse.c, src/cache/, src/control/.
 */
#ifndef SHEAF_OS_NAMES_H
#define SHEAF_OS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OS_TEXT 512 /* bytes of a text option; longer ones are cut off, with a report */

struct os_names {
	unsigned int n;
	struct os_name {
		const char *text; /* may end in *; stays where it is */
		uint32_t value;
		uint16_t length;
		uint8_t matched;
	} all[OS_TEXT / 2];
};

/* Is this the name, or does the name begin so, if the pattern ends in *? */
bool os_name_matches(const char *pattern, size_t length, const char *name);
void os_names_add(struct os_names *names, const char *text, size_t length, uint32_t value);
/* The first that matches, which is marked; or NULL. */
const struct os_name *os_names_find(struct os_names *names, const char *name);
/* Report those that are not marked, each with these words about the option. */
void os_names_report(const struct os_names *names, const char *words);

#endif
