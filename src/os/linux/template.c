/* SPDX-License-Identifier: MIT */
/*
 * Rows that are copies of one slot, and that use memory only where they are written: private
 * mappings of a file in memory whose pages are full of copies.
 *
 * A mapping shows a file once, from one offset on, so F rows of a file need one mapping for each F
 * rows. F is large enough for MAPPINGS to cover all rows, but the file, which is memory, has at
 * most ROWS_AN_AREA rows for each area mapped in one call. Each call maps twice as many areas
 * (src/percpu/rows.c), so the number of mappings grows with the logarithm of the number of areas.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/file.h"
#include "os/linux/linux.h"
#include "os/should_fail.h"

#define MAPPINGS     32
#define ROWS_AN_AREA 4

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

void template_fill(char *row, const struct slot *template)
{
	for (size_t at = 0; at < ROW_BYTES; at += sizeof(*template))
		memcpy(row + at, template, sizeof(*template));
}

/* With vm.memfd_noexec=2, Linux 6.3 to 6.5 refuses a file unless the caller asks for one that
 * cannot be executed; older kernels do not know that flag. */
static int make_template(void)
{
	int file = (int)os_syscall_may_fail(EMFILE, memfd_create, "sheaf-slots",
					    MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (file < 0 && errno == EINVAL)
		file = (int)syscall(SYS_memfd_create, "sheaf-slots", MFD_CLOEXEC);
	return file;
}

/* The number of rows for the file; 0 if it must not be written. */
static size_t rows_of_file(size_t n, unsigned int nr_areas)
{
	size_t rows = (n + MAPPINGS - 1) / MAPPINGS, most = (size_t)nr_areas * ROWS_AN_AREA;
	size_t allowed = os_file_longest() / ROW_BYTES;

	most = allowed < most ? allowed : most;
	return rows < most ? rows : most;
}

struct template_file template_file(const char *row, size_t n, unsigned int nr_areas)
{
	struct template_file template = {.file = -1, .rows = rows_of_file(n, nr_areas)};

	if (template.rows)
		template.file = make_template();
	for (size_t i = 0; template.file >= 0 && i < template.rows; i++)
		if (os_syscall_may_fail(ENOSPC, pwrite64, template.file, row, ROW_BYTES,
					(off_t)(i * ROW_BYTES)) != (ssize_t)ROW_BYTES) {
			os_file_close(template.file);
			template.file = -1;
		}
	return template;
}

bool template_map(const struct template_file *template, char *rows, size_t n)
{
	for (size_t at = 0; at < n; at += template->rows) {
		size_t here = n - at < template->rows ? n - at : template->rows;

		if (os_may_fail(ENOMEM, mmap, rows + at * ROW_BYTES, here * ROW_BYTES,
				PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, template->file,
				0) == MAP_FAILED)
			return false;
	}
	return true;
}
