/* SPDX-License-Identifier: MIT */
/* Rows of copies of one slot; see template.c. Callers: src/os/linux/, sim/os/. */
#ifndef SHEAF_OS_LINUX_TEMPLATE_H
#define SHEAF_OS_LINUX_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "os/section.h"

#define ROW_BYTES ((size_t)1 << ROW_SHIFT)

/* One row. */
void template_fill(char *row, const struct slot *template);

/* A file with copies of this row, for n rows of nr_areas areas. */
struct template_file {
	int file; /* -1: it could not be created */
	size_t rows;
};
struct template_file template_file(const char *row, size_t n, unsigned int nr_areas);
/* Map n rows of it over these addresses. Returns false if refused; some may then be mapped. */
bool template_map(const struct template_file *template, char *rows, size_t n);
void template_close(const struct template_file *template);

#endif
