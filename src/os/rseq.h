/* SPDX-License-Identifier: MIT */
/*
 * The assembly sections of this architecture, if there are any; HAVE_RSEQ is then defined.
 *
 * Callers: src/os/section.c, and the fast paths in src/cache/.
 */
#ifndef SHEAF_OS_RSEQ_H
#define SHEAF_OS_RSEQ_H

#ifndef SHEAF_SIM
#if defined(__x86_64__)
#include "os/linux/section_x86_64.h"
#define HAVE_RSEQ 1
#elif defined(__aarch64__)
#include "os/linux/section_aarch64.h"
#define HAVE_RSEQ 1
#endif
#ifdef HAVE_RSEQ
#include "os/linux/section_rseq.h"
#endif
#endif

#endif
