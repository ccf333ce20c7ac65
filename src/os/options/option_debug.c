/* SPDX-License-Identifier: MIT */
/* slab_debug among the options: its blocks have a grammar of their own; see options.h. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "os/options/option.h"
#include "os/report/report.h"

#define DEBUG	    "slab_debug"
#define IS_DEBUG(c) (strchr(OS_LETTERS "-", toupper((unsigned char)(c))) != NULL)

static bool is_option(const char *word, size_t length)
{
	for (size_t i = 0; i < OS_NR_OPTIONS; i++)
		if (strlen(os_option_table[i].name) == length &&
		    os_option_has_name(word, length, os_option_table[i].name))
			return true;
	return false;
}

bool os_option_is_debug(const char *word, size_t length, bool after)
{
	const char *comma;

	if (os_option_has_name(word, length, DEBUG))
		return length == sizeof(DEBUG) - 1 || strchr("=,", word[sizeof(DEBUG) - 1]);
	if (!after || !length || is_option(word, length))
		return false;
	comma = memchr(word, ',', length);
	if (comma)
		length = (size_t)(comma - word);
	while (length && (IS_DEBUG(*word) || (comma && *word >= 'A' && *word <= 'Z'))) {
		word++;
		length--;
	}
	return !length;
}

static void warn_of_names(const char *block, size_t length)
{
	const char *comma;

	while ((comma = memchr(block, ',', length)) != NULL) {
		length -= (size_t)(comma + 1 - block);
		block = comma + 1;
		if (is_option(block, strcspn(block, ";, ")))
			os_report_later("SHEAF_OPTIONS: \"%.*s\" after a comma is the name of a "
					"cache for slab_debug; put \";\" in front of options",
					(int)strcspn(block, ";, "), block);
	}
}

bool os_option_add_debug(const char *word, size_t length)
{
	size_t used = strlen(os_options.slab_debug);
	char *end = os_options.slab_debug + used;
	int written;

	warn_of_names(word, length);
	if (os_option_has_name(word, length, DEBUG)) {
		bool has_value = length > sizeof(DEBUG) - 1 && word[sizeof(DEBUG) - 1] == '=';

		word += sizeof(DEBUG) - 1 + has_value;
		length -= sizeof(DEBUG) - 1 + has_value;
	}
	written = snprintf(end, OS_TEXT - used, "%s%s%.*s", used ? ";" : "",
			   !length || *word == ',' ? OS_USUAL_LETTERS : "", (int)length, word);
	if ((size_t)written < OS_TEXT - used)
		return true;
	*end = '\0';
	os_report_later("SHEAF_OPTIONS: slab_debug is longer than %d letters; the last block is "
			"left out",
			OS_TEXT - 1);
	return false;
}

bool os_options_debug_has(char letter)
{
	const char *block = os_options.slab_debug;

	while (*block) {
		size_t letters = strcspn(block, ",;-");

		for (size_t i = 0; i < letters; i++)
			if (block[i] == letter || block[i] == letter + ('a' - 'A'))
				return true;
		block += strcspn(block, ";");
		block += *block == ';';
	}
	return false;
}
