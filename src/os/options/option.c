/* SPDX-License-Identifier: MIT */
/* Reads the word of one option: a switch, a number, a text, or a name that does not exist. */
#include "os/options/option.h"

#include <stdlib.h>
#include <string.h>

#include "os/report/report.h"

#define LONGEST 64 /* letters of a word in a report */

/* Levenshtein distance of two short texts, one row at a time. */
static unsigned int distance(const char *a, size_t a_length, const char *b)
{
	unsigned int row[LONGEST + 1];
	size_t b_length = strlen(b);

	for (size_t j = 0; j <= b_length; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 0; i < a_length; i++) {
		unsigned int diagonal = row[0];

		row[0] = (unsigned int)i + 1;
		for (size_t j = 0; j < b_length; j++) {
			unsigned int best = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			best = best < row[j] + 1 ? best : row[j] + 1;
			row[j + 1] = best < diagonal + 1 ? best : diagonal + 1;
		}
	}
	return row[b_length];
}

/* The distance to an option's name; a number or text after it does not count. */
static unsigned int distance_to(const struct os_option *option, const char *word, size_t length)
{
	const char *sign = option->most	  ? memrchr(word, '=', length)
			   : option->text ? memchr(word, '=', length)
					  : NULL;

	return distance(word, sign ? (size_t)(sign - word) + 1 : length, option->name);
}

static void report_unknown(const char *word, size_t length)
{
	const struct os_option *nearest = &os_option_table[0];
	unsigned int best = ~0u;
	size_t longer;

	for (size_t i = 0; i < OS_NR_OPTIONS; i++) {
		unsigned int d = distance_to(&os_option_table[i], word, length);

		if (d < best) {
			best = d;
			nearest = &os_option_table[i];
		}
	}
	/* Distant names are not misspellings: up to a third of the letters may be wrong. */
	longer = strlen(nearest->name) > length ? strlen(nearest->name) : length;
	if (best <= longer / 3)
		os_report_later("SHEAF_OPTIONS: unknown option \"%.*s\" ignored; did you mean "
				"\"%s%s\"?",
				(int)length, word, nearest->name, nearest->most ? "N" : "");
	else
		os_report_later("SHEAF_OPTIONS: unknown option \"%.*s\" ignored; "
				"SHEAF_OPTIONS=help lists them",
				(int)length, word);
}

static bool set_option(const struct os_option *option, uint32_t value, bool *given)
{
	bool *before = &given[option - os_option_table];

	if (*before && *option->value != value)
		os_report_later("SHEAF_OPTIONS: %s%u and %s%u; the second is used", option->name,
				*option->value, option->name, value);
	*before = true;
	*option->value = value;
	return true;
}

static bool parse_number(const struct os_option *option, const char *word, size_t length,
			 bool *given)
{
	const char *digits = word + strlen(option->name);
	char *end;
	unsigned long value = strtoul(digits, &end, 10);

	if (*digits < '0' || *digits > '9' || end != word + length || value < option->least ||
	    value > option->most) {
		os_report_later("SHEAF_OPTIONS: \"%.*s\" ignored: %s takes a number from %u to %u",
				(int)length, word, option->name, option->least, option->most);
		return false;
	}
	return set_option(option, (uint32_t)value, given);
}

static bool parse_text(const struct os_option *option, const char *text, size_t length)
{
	bool plain = length && length < OS_TEXT;

	for (size_t i = 0; i < length; i++)
		plain &= (unsigned char)text[i] >= ' ' && text[i] != 0x7f;
	if (!plain) {
		os_report_later("SHEAF_OPTIONS: \"%s%.*s\" ignored: %s takes 1 to %d letters "
				"without control characters",
				option->name, length < LONGEST ? (int)length : LONGEST, text,
				option->name, OS_TEXT - 1);
		return false;
	}
	memcpy(option->text, text, length);
	option->text[length] = '\0';
	return true;
}

bool os_option_has_name(const char *word, size_t length, const char *name)
{
	size_t n = strlen(name);

	if (length < n)
		return false;
	return !memcmp(word, name, n) ||
	       (n > 5 && !memcmp(word, "slub_", 5) && !memcmp(name, "slab_", 5) &&
		!memcmp(word + 5, name + 5, n - 5));
}

bool os_option_read(const char *word, size_t length, bool *given)
{
	for (size_t i = 0; i < OS_NR_OPTIONS; i++) {
		const struct os_option *option = &os_option_table[i];
		size_t name = strlen(option->name);

		if (!os_option_has_name(word, length, option->name))
			continue;
		if (option->text)
			return parse_text(option, word + name, length - name);
		if (option->most)
			return parse_number(option, word, length, given);
		if (length == name)
			return set_option(option, 1, given);
	}
	report_unknown(word, length < LONGEST ? length : LONGEST);
	return false;
}
