/* SPDX-License-Identifier: MIT */
/* Parses SHEAF_OPTIONS; see options.h. */
#include "os/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/report.h"

#define ZERO(field, name)
#define DEFAULT(field, name, least, most, value) .field = value,
#define DEFAULTS                                                                                   \
	{                                                                                          \
		OS_OPTIONS(ZERO, DEFAULT)                                                          \
	}

struct os_options os_options = DEFAULTS;

struct option {
	const char *name; /* ends in '=' if a number follows */
	uint32_t *value;
	uint32_t least, most;
};

#define SWITCH(field, name)			{name, &os_options.field, 0, 0},
#define NUMBER(field, name, least, most, value) {name, &os_options.field, least, most},

static const struct option table[] = {OS_OPTIONS(SWITCH, NUMBER)};

#define NR_OPTIONS (sizeof(table) / sizeof(table[0]))
#define LONGEST	   64

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

static void report_unknown(const char *word, size_t length)
{
	const struct option *nearest = &table[0];
	unsigned int best = ~0u;

	for (size_t i = 0; i < NR_OPTIONS; i++) {
		unsigned int d = distance(word, length, table[i].name);

		if (d < best) {
			best = d;
			nearest = &table[i];
		}
	}
	os_report_later("SHEAF_OPTIONS: unknown option \"%.*s\" ignored; did you mean \"%s%s\"?",
			(int)length, word, nearest->name, nearest->most ? "N" : "");
}

static bool parse_number(const struct option *option, const char *word, size_t length)
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
	*option->value = (uint32_t)value;
	return true;
}

static bool parse_word(const char *word, size_t length)
{
	for (size_t i = 0; i < NR_OPTIONS; i++) {
		const struct option *option = &table[i];
		size_t name = strlen(option->name);

		if (option->most && length >= name && !memcmp(word, option->name, name))
			return parse_number(option, word, length);
		if (!option->most && length == name && !memcmp(word, option->name, name)) {
			*option->value = 1;
			return true;
		}
	}
	report_unknown(word, length < LONGEST ? length : LONGEST);
	return false;
}

bool os_options_parse(const char *text)
{
	bool understood = true;

	os_options = (struct os_options)DEFAULTS;
	while (*text) {
		size_t length = strcspn(text, ";, ");

		if (length)
			understood &= parse_word(text, length);
		text += length;
		text += *text != '\0';
	}
	return understood;
}

void os_options_text(char *text, size_t size)
{
	const struct os_options defaults = DEFAULTS;
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < NR_OPTIONS && used < size; i++) {
		const struct option *option = &table[i];
		size_t at = (size_t)((const char *)option->value - (const char *)&os_options);

		if (!memcmp((const char *)&defaults + at, option->value, sizeof(*option->value)))
			continue;
		used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ";" : "",
					 option->name);
		if (option->most && used < size)
			used += (size_t)snprintf(text + used, size - used, "%u", *option->value);
	}
}

void os_options_init(void)
{
	const char *text = secure_getenv("SHEAF_OPTIONS");

	os_options_parse(text ? text : "");
}
