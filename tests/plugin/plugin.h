/* SPDX-License-Identifier: MIT */
/* The calls of this test's plugin for its host, which finds them with dlsym(). */
#ifndef SHEAF_TESTS_PLUGIN_H
#define SHEAF_TESTS_PLUGIN_H

/* In memory shared with the process that waits for the host. */
struct plugin_record {
	unsigned int faults;
	unsigned int ended; /* times that a destructor freed what a constructor allocated */
};

/* Where the destructor leaves its word. */
typedef void plugin_begin_fn(struct plugin_record *record);
/* Allocate and free this many objects; returns how many were not available or belonged to others
 * too. */
typedef unsigned int plugin_use_fn(unsigned int objects);

#endif
