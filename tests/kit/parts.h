/* SPDX-License-Identifier: MIT */
/* Parts of a test, by name; each runs in a new image of its program. */
#ifndef SHEAF_TESTS_PARTS_H
#define SHEAF_TESTS_PARTS_H

#include <stddef.h>
#include <string.h>

struct part {
	const char *name;
	void (*run)(void);
};

/* The exit status of an image that runs the part with this name. */
static inline int run_part(const struct part *parts, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, parts[i].name)) {
			parts[i].run();
			return 0;
		}
	return 2;
}

#endif
