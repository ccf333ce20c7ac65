/* SPDX-License-Identifier: MIT */
/* What the shared library exports; all else is hidden. Callers: where a public function is
 * defined. */
#ifndef SHEAF_OS_PUBLIC_H
#define SHEAF_OS_PUBLIC_H

#define SHEAF_PUBLIC __attribute__((visibility("default")))

/* For functions whose return address identifies the calling place in the program. If whole-program
 * optimisation inlined one, it would see its caller's return address. */
#define OS_NOT_INLINED __attribute__((noinline))

#endif
