/* SPDX-License-Identifier: MIT */
/* A program that does nothing: see start.c. */
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	syscall(SYS_getppid);
	return 0;
}
