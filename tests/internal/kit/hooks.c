/* SPDX-License-Identifier: MIT */
#include "kit/hooks.h"

#include "os/machine.h"
#include "os/report/report.h"

void hook_forget_misuse(void)
{
	os_misuse_forget();
}

bool hook_has_tools(void)
{
	return os.tools;
}

void hook_leave_tools(void)
{
	os.tools = 0;
}
