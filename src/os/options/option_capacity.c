/* SPDX-License-Identifier: MIT */
/*
 * sheaf_capacity among the options: a list with a grammar of its own; see options.h.
 *
 *   NAME:N[,NAME:N]...     NAME may end in *; of the items that match a cache, the first applies
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/options/option.h"
#include "os/report/report.h"

#define ITEM_SHOWN 64 /* letters of an item in a report */

struct os_names os_capacities OS_LARGE;

/* 0: the item, whose name ends at the colon, is not valid. */
static unsigned int capacity_of(const char *item, size_t length, const char *colon)
{
	bool plain = colon && colon > item && isdigit((unsigned char)colon[1]);
	unsigned long n;
	char *last;

	for (const char *at = item; plain && at < colon; at++)
		plain = (unsigned char)*at > ' ' && *at != 0x7f;
	if (!plain)
		return 0;
	n = strtoul(colon + 1, &last, 10);
	return last == item + length && n <= OS_CAPACITY_MOST ? (unsigned int)n : 0;
}

static bool add_item(const char *item, size_t length)
{
	char *list = os_options.sheaf_capacity;
	const char *colon = memrchr(item, ':', length);
	unsigned int capacity = capacity_of(item, length, colon);
	size_t used = strlen(list);

	if (capacity && used + 1 + length < OS_TEXT) {
		if (used)
			list[used++] = ',';
		snprintf(list + used, OS_TEXT - used, "%.*s", (int)length, item);
		os_names_add(&os_capacities, list + used, (size_t)(colon - item), capacity);
		return true;
	}
	os_report_later("SHEAF_OPTIONS: \"%.*s\" of sheaf_capacity ignored: %s",
			(int)(length < ITEM_SHOWN ? length : ITEM_SHOWN), item,
			capacity ? "the list is too long"
				 : "it takes NAME:N,NAME*:N with N from 1 to 4096; put \";\" in "
				   "front of other options");
	return false;
}

bool os_option_add_capacities(const char *list, size_t length)
{
	const char *end = list + length;
	bool understood = true;

	while (list <= end) {
		const char *comma = memchr(list, ',', (size_t)(end - list));
		size_t item = (size_t)((comma ? comma : end) - list);

		understood &= add_item(list, item);
		list += item + 1;
	}
	return understood;
}
