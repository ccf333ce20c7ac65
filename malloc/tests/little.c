/* SPDX-License-Identifier: MIT */
/* A program that allocates little, for a short time and again: see start.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	syscall(SYS_getppid);
	for (size_t i = 0; i < 1000; i++) {
		char *name = strdup("a name"), *line = malloc(100 + i % 8), *more;

		if (!name || !line)
			return 1;
		more = realloc(line, 400);
		if (!more)
			return 1;
		free(more);
		free(name);
	}
	return 0;
}
