/* SPDX-License-Identifier: MIT */
/*
 * sheaf_capacity among the options: a list with a grammar of its own; see options.h.
 *
 *   NAME:N[,NAME:N]...     NAME may end in *; of the items that match a cache, the first applies
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "os/atomic.h"
#include "os/options/option.h"
#include "os/quote.h"
#include "os/report/report.h"

#define ITEM_SHOWN 64 /* letters of an item in a report */

struct item {
	const char *text; /* from the name on */
	size_t length, name;
	unsigned int capacity; /* 0: it is not valid */
};

/* Where items begin that a cache has matched. */
static uint8_t matched[OS_TEXT] OS_LARGE;

static struct item read_item(const char *text, const char *end)
{
	const char *comma = memchr(text, ',', (size_t)(end - text)), *colon;
	struct item item = {.text = text, .length = (size_t)((comma ? comma : end) - text)};
	bool plain = true;
	unsigned long n;
	char *last;

	colon = memrchr(text, ':', item.length);
	for (const char *at = text; colon && at < colon; at++)
		plain &= (unsigned char)*at > ' ' && *at != 0x7f;
	if (!colon || colon == text || !plain || !isdigit((unsigned char)colon[1]))
		return item;
	item.name = (size_t)(colon - text);
	n = strtoul(colon + 1, &last, 10);
	if (last == text + item.length && n <= OS_CAPACITY_MOST)
		item.capacity = (unsigned int)n;
	return item;
}

static bool add_item(const struct item *item)
{
	char *list = os_options.sheaf_capacity;
	size_t used = strlen(list);

	if (item->capacity && used + 1 + item->length < OS_TEXT) {
		if (used)
			list[used++] = ',';
		memcpy(list + used, item->text, item->length);
		list[used + item->length] = '\0';
		return true;
	}
	os_report_later("SHEAF_OPTIONS: \"%.*s\" of sheaf_capacity ignored: %s",
			(int)(item->length < ITEM_SHOWN ? item->length : ITEM_SHOWN), item->text,
			item->capacity ? "the list is too long"
				       : "it takes NAME:N,NAME*:N with N from 1 to 4096; put \";\" "
					 "in front of other options");
	return false;
}

bool os_option_add_capacities(const char *list, size_t length)
{
	const char *end = list + length;
	bool understood = true;

	while (list <= end) {
		struct item item = read_item(list, end);

		understood &= add_item(&item);
		list += item.length + 1;
	}
	return understood;
}

/* Of those in force: from this one on, the first that matches the name or, with NULL, the first
 * that no cache has matched. Without text: there is none. */
static struct item find_item(const char *from, const char *name)
{
	const char *end = from + strlen(from);
	struct item item = {.text = NULL};

	while (from < end) {
		item = read_item(from, end);
		if (name ? os_name_matches(from, item.name, name)
			 : !os_load_relaxed(&matched[from - os_options.sheaf_capacity]))
			return item;
		from += item.length + 1;
		item.text = NULL;
	}
	return item;
}

unsigned int os_options_capacity(const char *name)
{
	struct item item = find_item(os_options.sheaf_capacity, name);

	if (item.text)
		os_store_relaxed(&matched[item.text - os_options.sheaf_capacity], 1);
	return item.text ? item.capacity : 0;
}

void os_options_report_unmatched(void)
{
	struct item item = find_item(os_options.sheaf_capacity, NULL);

	for (; item.text;
	     item = find_item(item.text + item.length + (item.text[item.length] == ','), NULL))
		os_report("sheaf_capacity: no cache matched \"%.*s\"; `sheaf info` lists names",
			  (int)item.length, item.text);
}
