/* SPDX-License-Identifier: MIT */
/* What the shared library exports; all else is hidden. Callers: where a public function is
 * defined. */
#ifndef SHEAF_OS_PUBLIC_H
#define SHEAF_OS_PUBLIC_H

#define SHEAF_PUBLIC __attribute__((visibility("default")))

/* For a function whose return address says which place in the program called it. Inlined, as by an
 * optimiser of the whole program, it would take its caller's return address for its own. */
#define OS_NOT_INLINED __attribute__((noinline))

#endif
