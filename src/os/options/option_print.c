/* SPDX-License-Identifier: MIT */
/* Options as text: those in force, and the list for `help`. */
#include <stdio.h>
#include <string.h>

#include "os/options/option.h"
#include "os/report/report.h"

bool os_options_is_preset(const uint32_t *value)
{
	const struct os_option *option = os_option_table;

	while (option->value != value)
		option++;
	return *value == option->preset;
}

void os_options_text(char *text, size_t size)
{
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < OS_NR_OPTIONS && used < size; i++) {
		const struct os_option *option = &os_option_table[i];

		if (option->text ? !*option->text : *option->value == option->preset)
			continue;
		used += (size_t)snprintf(text + used, size - used, "%s%s%s", used ? ";" : "",
					 option->name, option->text ? option->text : "");
		if (option->most && used < size)
			used += (size_t)snprintf(text + used, size - used, "%u", *option->value);
	}
	os_make_plain(text, strlen(text));
}

static void print_option(const struct os_option *option)
{
	char line[160], name[40], limits[48] = "", preset[24] = "";

	snprintf(name, sizeof(name), "%s%s", option->name,
		 option->text	? "TEXT"
		 : option->most ? "N"
				: "");
	if (option->preset >= option->least && option->preset < option->most)
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
	for (size_t i = 0; i < OS_NR_OPTIONS; i++)
		print_option(&os_option_table[i]);
}
