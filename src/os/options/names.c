/* SPDX-License-Identifier: MIT */
/* See names.h. */
#include "os/options/names.h"

#include <string.h>

#include "os/assert.h"
#include "os/atomic.h"
#include "os/report/report.h"

bool os_name_matches(const char *pattern, size_t length, const char *name)
{
	if (length && pattern[length - 1] == '*')
		return !strncmp(name, pattern, length - 1);
	return strlen(name) == length && !memcmp(name, pattern, length);
}

void os_names_add(struct os_names *names, const char *text, size_t length, uint32_t value)
{
	os_assert(names->n < OS_TEXT / 2); /* each has a letter, and something in front of it */
	names->all[names->n++] = (struct os_name){text, value, (uint16_t)length, 0};
}

const struct os_name *os_names_find(struct os_names *names, const char *name)
{
	for (struct os_name *one = names->all; one < names->all + names->n; one++)
		if (os_name_matches(one->text, one->length, name)) {
			os_store_relaxed(&one->matched, 1);
			return one;
		}
	return NULL;
}

void os_names_report(const struct os_names *names, const char *words)
{
	for (const struct os_name *one = names->all; one < names->all + names->n; one++)
		if (!os_load_relaxed(&one->matched))
			os_report("%s matched \"%.*s\"; `sheaf info` lists names", words,
				  one->length, one->text);
}
