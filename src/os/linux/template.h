/* SPDX-License-Identifier: MIT */
/* Rows whose every slot is a copy of one; see template.c. Callers: src/os/linux/, sim/os/. */
#ifndef SHEAF_OS_LINUX_TEMPLATE_H
#define SHEAF_OS_LINUX_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "os/section.h"

#define ROW_BYTES ((size_t)1 << ROW_SHIFT)

/* One row. */
void template_fill(char *row, const struct slot *template);

/* Rows of copies of this row, for n rows of so many areas. */
struct template_file {
	int file; /* -1: there can be none */
	size_t rows;
};
struct template_file template_file(const char *row, size_t n, unsigned int nr_areas);
/* Map n rows of it over these addresses. False: refused, and some may be mapped. */
bool template_map(const struct template_file *template, char *rows, size_t n);
void template_close(const struct template_file *template);

#endif
