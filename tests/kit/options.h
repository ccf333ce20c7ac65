/* SPDX-License-Identifier: MIT */
/* Reads SHEAF_OPTIONS, for tests whose subject an option changes or switches off. */
#ifndef SHEAF_TESTS_OPTIONS_H
#define SHEAF_TESTS_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What follows "name=", up to the end of SHEAF_OPTIONS; "" for a name without a value; NULL if it
 * is not given. The last one counts. */
static inline const char *option(const char *name)
{
	const char *found = NULL, *at = getenv("SHEAF_OPTIONS");
	size_t length = strlen(name);

	for (; at && *at; at += *at == ';') {
		if (!strncmp(at, name, length) && (!at[length] || strchr("=;", at[length])))
			found = at + length + (at[length] == '=');
		at += strcspn(at, ";");
	}
	return found && *found != ';' ? found : found ? "" : NULL;
}

static inline bool has_option(const char *name)
{
	return option(name) != NULL;
}

/* From the first use on: more rows of slots than a machine with few CPUs has, and so a file of them
 * (src/os/linux/rows.c). False: this one has a single CPU. */
static inline bool ask_for_many_rows(void)
{
	const char *given = getenv("SHEAF_OPTIONS");
	char options[512];

	snprintf(options, sizeof(options), "%s;backend=trylock;numa=fake=2", given ? given : "");
	return sysconf(_SC_NPROCESSORS_CONF) > 1 && !setenv("SHEAF_OPTIONS", options, 1);
}

static inline unsigned int option_number(const char *name, unsigned int preset)
{
	const char *value = option(name);

	return value ? (unsigned int)strtoul(value, NULL, 10) : preset;
}

/* Are caches debug caches, perhaps only some of them? No cache is one with "-". */
static inline bool has_slab_debug(void)
{
	const char *letters = option("slab_debug");

	return letters && !(letters[0] == '-' && strcspn(letters, ";") == 1);
}

/* Is the letter in the first block of slab_debug? */
static inline bool has_debug_letter(char letter)
{
	const char *letters = option("slab_debug");

	if (letters && !*letters)
		letters = "FZPU";
	return letters && memchr(letters, letter, strcspn(letters, ",;"));
}

static inline bool is_trylock(void)
{
	const char *backend = option("backend");

	return backend && !strncmp(backend, "trylock", 7);
}

static inline bool is_tiny(void)
{
#ifdef SHEAF_SLUB_TINY
	return true;
#else
	return has_option("slub_tiny");
#endif
}

/* Does the library check each freed object, and does it know which ones are free? */
static inline bool checks_double(void)
{
	return has_option("hardened") || has_option("slab_check_double");
}

static inline bool clears_on_alloc(void)
{
	return option_number("init_on_alloc", 0);
}

static inline bool clears_on_free(void)
{
	return option_number("init_on_free", 0);
}

static inline bool checks_free(void)
{
	return checks_double() || clears_on_free() || has_option("slab_check_free");
}

static inline unsigned int sets_of_kmalloc(void)
{
	return option_number("random_kmalloc_caches", has_option("hardened") ? 16 : 1);
}

#endif
