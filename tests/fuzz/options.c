/* SPDX-License-Identifier: MIT */
/*
 * SHEAF_OPTIONS and the blocks of slab_debug in it. Each report is one plain line, and each number
 * in its range. What was understood is the same again when the library writes the options in force
 * and reads that.
 */
#include <stdbool.h>

#include "debug/slab_debug.h"
#include "fuzz/target.h"
#include "os/options/option.h"
#include "os/report/callback.h"
#include "os/report/report.h"

static void check_line(void *unused, const char *text, size_t length)
{
	(void)unused;
	FUZZ_CHECK(length && text[length - 1] == '\n' && !strncmp(text, "libsheaf: ", 10));
	for (size_t i = 0; i + 1 < length; i++)
		FUZZ_CHECK((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
}

/* A shorter text in the place of a longer one: what follows its end says nothing. */
static void clear_ends(void)
{
	for (const struct os_option *o = os_option_table; o < os_option_table + OS_NR_OPTIONS; o++)
		if (o->text)
			memset(o->text + strlen(o->text), 0, OS_TEXT - strlen(o->text));
}

/* Reports must not go to the file that an input names. */
static bool read_options(const char *text, struct os_options *read)
{
	bool understood = os_options_parse(text);

	understood &= debug_parse(os_options.slab_debug);
	clear_ends();
	*read = os_options;
	*os_options.report = '\0';
	os_report_kept();
	return understood;
}

static bool is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

static void check_ranges(void)
{
	for (const struct os_option *o = os_option_table; o < os_option_table + OS_NR_OPTIONS; o++)
		if (o->most && *o->value != o->preset)
			FUZZ_CHECK(*o->value >= o->least && *o->value <= o->most);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	os_callback *old;
	void *old_data;

	(void)argc, (void)argv;
	FUZZ_CHECK(os_callback_set(check_line, NULL, &old, &old_data));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct os_options first, again;
	static char text[4096], shown[8192];
	struct fuzz_bytes in = {data, size};
	const struct os_name *found;
	bool understood;

	fuzz_text(&in, '\0', text, sizeof(text));
	understood = read_options(text, &first);
	os_options = first;
	check_ranges();
	os_options_text(shown, sizeof(shown));
	FUZZ_CHECK(is_plain(shown));
	for (const char *letter = OS_LETTERS; *letter; letter++)
		os_options_debug_has(*letter);
	fuzz_text(&in, '\0', text, sizeof(text));
	debug_flags_of(text, 0);
	found = os_names_find(&os_capacities, text);
	FUZZ_CHECK(!found || (found->value && found->value <= OS_CAPACITY_MOST));
	if (understood && is_plain(first.slab_debug)) {
		FUZZ_CHECK(read_options(shown, &again));
		FUZZ_CHECK(!memcmp(&first, &again, sizeof(first)));
	}
	return 0;
}
