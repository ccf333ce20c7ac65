/* SPDX-License-Identifier: MIT */
/* What the plugin of this test shows its host, which finds it by dlsym(). */
#ifndef SHEAF_TESTS_PLUGIN_H
#define SHEAF_TESTS_PLUGIN_H

/* In memory shared with the process that waits for the host. */
struct plugin_record {
	unsigned int faults;
	unsigned int ended; /* times that a destructor freed what a constructor allocated */
};

/* Where the destructor leaves its word. */
typedef void plugin_begin_fn(struct plugin_record *record);
/* Allocate and free so many objects; how many could not be had or were another's too. */
typedef unsigned int plugin_use_fn(unsigned int objects);

#endif
