/* SPDX-License-Identifier: MIT */
/* Versions of the kernel; see release.h. */
#include "os/linux/release.h"

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
