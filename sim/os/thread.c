/* SPDX-License-Identifier: MIT */
/* The simulation creates the fibres: the library gets no thread of its own. */
#include "os/thread.h"

bool os_thread_start(void (*body)(void))
{
	(void)body;
	return false;
}

bool os_thread_is_own(void)
{
	return false;
}

void os_thread_forget(void)
{
}

int os_cancel_off(void)
{
	return 0;
}

void os_cancel_restore(int before)
{
	(void)before;
}

bool os_on_signal_stack(void)
{
	return false;
}
