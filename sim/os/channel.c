/* SPDX-License-Identifier: MIT */
/* Nobody asks a simulated process. */
#include "os/channel.h"

uint32_t os_channel_is_on;

void os_channel_open(void)
{
}

void os_channel_after_fork(void)
{
}

bool os_channel_enter(void)
{
	return false;
}

void os_channel_leave(void)
{
}

bool os_channel_request(char line[CHANNEL_LINE])
{
	(void)line;
	return false;
}

int os_channel_file(void)
{
	return -1;
}

void os_channel_answer(int file, const char *status)
{
	(void)file, (void)status;
}
