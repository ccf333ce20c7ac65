/* SPDX-License-Identifier: MIT */
/* The machine of INVENTED_MACHINE: see invented_machine.c. */
#ifndef SHEAF_TESTS_INTERNAL_KIT_INVENTED_MACHINE_H
#define SHEAF_TESTS_INTERNAL_KIT_INVENTED_MACHINE_H

/* Files in /sys/devices that the library read, and files of nodes that do not exist. */
extern unsigned int invented_reads, invented_misses;

#endif
