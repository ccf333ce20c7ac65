/* SPDX-License-Identifier: MIT */
/*
 * On AArch64, Linux 6.19 and 7.0 to 7.0.13 may lose an abort: a thread that was preempted inside a
 * restartable section then continues in it, on another CPU. 7.1 and 7.0.14 are fixed, 6.19 never
 * was. A section cannot detect that, so the version decides. A distribution's kernel often does not
 * say which 7.0 it is ("7.0.0-14-generic"); it counts as an early one, as do release candidates of
 * 7.1. A release that is no version counts as a good one.
 */
#include "os/linux/linux.h"

#include <stdlib.h>
#include <string.h>

/* The number here, and whatever `text` points to behind it and one dot; -1 if there is none. */
static long next_number(const char **text)
{
	char *end;
	long number;

	if (**text < '0' || **text > '9')
		return -1;
	number = strtol(*text, &end, 10);
	*text = end + (*end == '.');
	return number;
}

/* "7.1.0-rc3", "7.1-rc3+", "7.1.0-0.rc3.260501.fc45", "7.1.0-070100rc3-generic" */
static bool is_candidate(const char *rest)
{
	while ((rest = strstr(rest, "rc")) != NULL) {
		rest += 2;
		if (*rest >= '0' && *rest <= '9')
			return true;
	}
	return false;
}

bool release_loses_aborts(const char *release)
{
	long major = next_number(&release), minor = next_number(&release),
	     patch = next_number(&release);

	if (major == 6)
		return minor == 19;
	if (major != 7)
		return false;
	return (minor <= 0 && patch < 14) || (minor == 1 && patch <= 0 && is_candidate(release));
}
