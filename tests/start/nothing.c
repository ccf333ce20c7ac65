/* SPDX-License-Identifier: MIT */
/* A program that does nothing but read a constant, as first.c does: see start.c. */
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	syscall(SYS_getppid);
	return *(const volatile char *)"nothing" == '\0';
}
