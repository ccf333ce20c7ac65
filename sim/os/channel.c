/* SPDX-License-Identifier: MIT */
/* No process asks a simulated one. */
#include "os/channel.h"

int32_t os_channel_is_on;

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

char *os_channel_request(void)
{
	return NULL;
}

const struct os_descriptor *os_channel_file(void)
{
	return NULL;
}

void os_channel_answer(const char *error)
{
	(void)error;
}
