/* SPDX-License-Identifier: MIT */
/* What the shared library exports; all else is hidden. Callers: where a public function is
 * defined. */
#ifndef SHEAF_OS_PUBLIC_H
#define SHEAF_OS_PUBLIC_H

#define SHEAF_PUBLIC __attribute__((visibility("default")))

#endif
