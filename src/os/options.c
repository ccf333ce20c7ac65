/* SPDX-License-Identifier: MIT */
/* Parses SHEAF_OPTIONS; see options.h. */
#include "os/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/report.h"

#define NOTHING(field, name, meaning)
#define DEFAULT(field, name, least, most, value, meaning) .field = value,
#define DEFAULTS                                                                                   \
	{                                                                                          \
		OS_OPTIONS(NOTHING, DEFAULT, NOTHING)                                              \
	}

struct os_options os_options = DEFAULTS;

struct option {
	const char *name; /* ends in '=' if a value follows */
	uint32_t *value;
	uint32_t least, most, preset;
	const char *meaning;
	char *text; /* of a TEXT; NULL: of another kind */
};

#define SWITCH(field, name, meaning) {name, &os_options.field, 0, 0, 0, meaning, NULL},
#define NUMBER(field, name, least, most, value, meaning)                                           \
	{name, &os_options.field, least, most, value, meaning, NULL},
#define TEXT(field, name, meaning) {name, NULL, 0, 0, 0, meaning, os_options.field},

static const struct option table[] = {OS_OPTIONS(SWITCH, NUMBER, TEXT)};

/* As many as the kernel has. */
#define HARDENED_KMALLOC_CACHES 16
#define TINY_MAX_ORDER		1

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

/* The distance to an option's name; a number or text after it does not count. */
static unsigned int distance_to(const struct option *option, const char *word, size_t length)
{
	const char *sign = option->most	  ? memrchr(word, '=', length)
			   : option->text ? memchr(word, '=', length)
					  : NULL;

	return distance(word, sign ? (size_t)(sign - word) + 1 : length, option->name);
}

/* Distant names are not misspellings: up to a third of the letters may be wrong. */
static bool is_near(const struct option *option, unsigned int d, size_t length)
{
	size_t longer = strlen(option->name);

	return d <= (longer > length ? longer : length) / 3;
}

static void report_unknown(const char *word, size_t length)
{
	const struct option *nearest = &table[0];
	unsigned int best = ~0u;

	for (size_t i = 0; i < NR_OPTIONS; i++) {
		unsigned int d = distance_to(&table[i], word, length);

		if (d < best) {
			best = d;
			nearest = &table[i];
		}
	}
	if (is_near(nearest, best, length))
		os_report_later("SHEAF_OPTIONS: unknown option \"%.*s\" ignored; did you mean "
				"\"%s%s\"?",
				(int)length, word, nearest->name, nearest->most ? "N" : "");
	else
		os_report_later("SHEAF_OPTIONS: unknown option \"%.*s\" ignored; "
				"SHEAF_OPTIONS=help lists them",
				(int)length, word);
}

static bool set_option(const struct option *option, uint32_t value, bool *given)
{
	bool *before = &given[option - table];

	if (*before && *option->value != value)
		os_report_later("SHEAF_OPTIONS: %s%u and %s%u; the second is used", option->name,
				*option->value, option->name, value);
	*before = true;
	*option->value = value;
	return true;
}

static bool parse_number(const struct option *option, const char *word, size_t length, bool *given)
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

/* A text that needs no escapes between quotes, in the file for other processes. */
static bool parse_text(const struct option *option, const char *text, size_t length)
{
	bool plain = length && length < OS_TEXT;

	for (size_t i = 0; i < length; i++)
		plain &= (unsigned char)text[i] > ' ' && text[i] != '"' && text[i] != '\\';
	if (!plain) {
		os_report_later("SHEAF_OPTIONS: \"%s%.*s\" ignored: %s takes 1 to %d letters "
				"without spaces, quotes or backslashes",
				option->name, length < LONGEST ? (int)length : LONGEST, text,
				option->name, OS_TEXT - 1);
		return false;
	}
	memcpy(option->text, text, length);
	option->text[length] = '\0';
	return true;
}

static bool parse_word(const char *word, size_t length, bool *given)
{
	for (size_t i = 0; i < NR_OPTIONS; i++) {
		const struct option *option = &table[i];
		size_t name = strlen(option->name);

		if (option->text && length >= name && !memcmp(word, option->name, name))
			return parse_text(option, word + name, length - name);
		if (option->text)
			continue;
		if (option->most && length >= name && !memcmp(word, option->name, name))
			return parse_number(option, word, length, given);
		if (!option->most && length == name && !memcmp(word, option->name, name))
			return set_option(option, 1, given);
	}
	report_unknown(word, length < LONGEST ? length : LONGEST);
	return false;
}

/* Options that contradict each other; os/start.c reports those that this machine cannot follow. */
static void report_contradictions(const bool *given)
{
	const struct os_options *o = &os_options;
	bool prints = o->stats || o->stats_json;

	if (o->min_order > o->max_order)
		os_report_later("SHEAF_OPTIONS: slab_min_order=%u is above slab_max_order=%u; "
				"slab_min_order is ignored",
				o->min_order, o->max_order);
	if (o->backend_trylock && o->backend_rseq)
		os_report_later("SHEAF_OPTIONS: backend=trylock and backend=rseq; trylock is used");
	if (o->index_mm_cid && o->index_cpu_id)
		os_report_later("SHEAF_OPTIONS: index=mm_cid and index=cpu_id; mm_cid is used");
	if (o->stats && o->stats_json)
		os_report_later("SHEAF_OPTIONS: stats and stats=json; JSON is printed at exit");
	if (o->stats_live && prints)
		os_report_later(
			"SHEAF_OPTIONS: %s and stats=live; the counters are printed at exit",
			o->stats_json ? "stats=json" : "stats");
	for (size_t i = 0; i < NR_OPTIONS; i++)
		if (given[i] && table[i].value == &o->stats_fd && !prints)
			os_report_later("SHEAF_OPTIONS: stats_fd=%u is ignored without stats or "
					"stats=json",
					o->stats_fd);
}

#define DEBUG	    "slab_debug"
#define IS_DEBUG(c) (strchr("FZPUTAOGSQfzputaogsq-", (c)) != NULL)

static bool is_option(const char *word, size_t length)
{
	for (size_t i = 0; i < NR_OPTIONS; i++)
		if (strlen(table[i].name) == length && !memcmp(word, table[i].name, length))
			return true;
	return false;
}

/* Is the word slab_debug, or another block of it? */
static bool is_debug(const char *word, size_t length, bool after)
{
	const char *comma;

	if (length >= sizeof(DEBUG) - 1 && !memcmp(word, DEBUG, sizeof(DEBUG) - 1))
		return length == sizeof(DEBUG) - 1 || strchr("=,", word[sizeof(DEBUG) - 1]);
	if (!after || !length)
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

/* Add to the blocks, which src/debug/ parses; slab_debug without a block selects its usual
 * letters. */
static bool add_debug(const char *word, size_t length)
{
	size_t used = strlen(os_options.slab_debug);
	char *end = os_options.slab_debug + used;
	int written;

	warn_of_names(word, length);
	if (length >= sizeof(DEBUG) - 1 && !memcmp(word, DEBUG, sizeof(DEBUG) - 1)) {
		bool has_value = length > sizeof(DEBUG) - 1 && word[sizeof(DEBUG) - 1] == '=';

		word += sizeof(DEBUG) - 1 + has_value;
		length -= sizeof(DEBUG) - 1 + has_value;
	}
	if (!length || *word == ',')
		written = snprintf(end, OS_TEXT - used, "%sFZPU%.*s", used ? ";" : "", (int)length,
				   word);
	else
		written =
			snprintf(end, OS_TEXT - used, "%s%.*s", used ? ";" : "", (int)length, word);
	if ((size_t)written < OS_TEXT - used)
		return true;
	*end = '\0';
	os_report_later("SHEAF_OPTIONS: slab_debug is longer than %d letters; the last block is "
			"left out",
			OS_TEXT - 1);
	return false;
}

static bool is_given(const bool *given, const uint32_t *value)
{
	for (size_t i = 0; i < NR_OPTIONS; i++)
		if (given[i] && table[i].value == value)
			return true;
	return false;
}

/* The options that one option stands for. slab_freelist_random is not among them: objects that are
 * allocated one after the other would lie apart, which can make a program slower by a quarter and
 * more. */
static void apply_presets(const bool *given)
{
	struct os_options *o = &os_options;

#ifdef SHEAF_SLUB_TINY
	o->tiny = 1;
#endif
	if (o->tiny && !is_given(given, &o->max_order))
		o->max_order = TINY_MAX_ORDER;
	if (o->hardened) {
		o->check_double = o->guard_pools = 1;
		if (!o->random_kmalloc_caches)
			o->random_kmalloc_caches = HARDENED_KMALLOC_CACHES;
	}
	if (o->check_double)
		o->check_pop = o->check_free = 1;
	/* A pointer must be checked before it is cleared. */
	if (o->init_on_free)
		o->check_free = 1;
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

bool os_options_parse(const char *text)
{
	bool understood = true, debug = false, given[NR_OPTIONS] = {false};

	os_options = (struct os_options)DEFAULTS;
	while (*text) {
		size_t whole = strcspn(text, "; "), length = strcspn(text, ";, ");

		debug = is_debug(text, whole, debug);
		if (debug) {
			length = whole;
			understood &= add_debug(text, length);
		} else if (length)
			understood &= parse_word(text, length, given);
		text += length;
		text += *text != '\0';
	}
	report_contradictions(given);
	apply_presets(given);
	return understood;
}

void os_options_text(char *text, size_t size)
{
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < NR_OPTIONS && used < size; i++) {
		const struct option *option = &table[i];

		if (option->text ? !*option->text : *option->value == option->preset)
			continue;
		used += (size_t)snprintf(text + used, size - used, "%s%s%s", used ? ";" : "",
					 option->name, option->text ? option->text : "");
		if (option->most && used < size)
			used += (size_t)snprintf(text + used, size - used, "%u", *option->value);
	}
}

static void print_option(const struct option *option)
{
	char line[160], name[40], limits[48] = "", preset[24] = "";

	snprintf(name, sizeof(name), "%s%s", option->name,
		 option->text	? "TEXT"
		 : option->most ? "N"
				: "");
	if (option->most && option->preset >= option->least)
		snprintf(preset, sizeof(preset), "; default %u", option->preset);
	if (option->most)
		snprintf(limits, sizeof(limits), " (%u to %u%s)", option->least, option->most,
			 preset);
	snprintf(line, sizeof(line), "  %-24s %s%s\n", name, option->meaning, limits);
	os_print(line);
}

void os_options_help(void)
{
	os_print("SHEAF_OPTIONS=\"name;name=N;...\": man 7 libsheaf describes each.\n");
	for (size_t i = 0; i < NR_OPTIONS; i++)
		print_option(&table[i]);
}

void os_options_init(void)
{
	const char *text = secure_getenv("SHEAF_OPTIONS");

	os_options_parse(text ? text : "");
}
