/* SPDX-License-Identifier: MIT */
/*
 * The kernel's grammar of slab_debug: blocks of letters and names.
 *
 *   letters[,name[*]]...[;letters...]...      no letters: FZPU; case does not matter
 *
 * Only the first block that names a cache applies to it. The last block without names applies to
 * all other caches. Blocks are read once, at the first use, and never change after that.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "debug/slab_debug.h"
#include "os/atomic.h"
#include "os/options/options.h"
#include "os/report/report.h"

static char block_text[OS_TEXT] OS_LARGE;
struct os_names debug_blocks OS_LARGE;
static slab_flags_t others; /* of caches that no block names */

/* Letters, flags and meanings. */
#define FLAG(letter, flag, meaning)    flag,
#define MEANING(letter, flag, meaning) #letter " (" meaning "), "
static const char all_letters[] = OS_LETTERS;
static const slab_flags_t flags_of_letters[] = {OS_DEBUG_LETTERS(FLAG)};

slab_flags_t debug_flag_of(char letter)
{
	const char *at = letter ? strchr(all_letters, toupper((unsigned char)letter)) : NULL;

	return at ? flags_of_letters[at - all_letters] : 0;
}

/* As in the kernel, letters after - are ignored. */
static slab_flags_t read_letters(const char *letters, size_t length, bool *understood)
{
	slab_flags_t flags = 0;

	if (!length)
		return read_letters(OS_USUAL_LETTERS, sizeof(OS_USUAL_LETTERS) - 1, understood);
	for (size_t i = 0; i < length && letters[i] != '-'; i++) {
		slab_flags_t flag = debug_flag_of(letters[i]);

		flags |= flag;
		if (flag)
			continue;
		os_report_later("slab_debug: unknown letter '%c' in \"%.*s\" ignored. The letters "
				"are " OS_DEBUG_LETTERS(MEANING) "- (none)",
				isprint((unsigned char)letters[i]) ? letters[i] : '?', (int)length,
				letters);
		*understood = false;
	}
	return flags & ~DEBUG_NOT_LARGER ? flags : 0;
}

static bool read_block(const char *block, size_t length)
{
	const char *end = block + length, *comma = memchr(block, ',', length);
	bool understood = true;
	slab_flags_t flags =
		read_letters(block, comma ? (size_t)(comma - block) : length, &understood);

	if (!comma)
		others = flags;
	while (comma) {
		const char *name = comma + 1, *star;
		size_t size;

		comma = memchr(name, ',', (size_t)(end - name));
		size = (size_t)((comma ? comma : end) - name);
		star = memchr(name, '*', size);
		if (size)
			os_names_add(&debug_blocks, name, star ? (size_t)(star + 1 - name) : size,
				     flags);
	}
	return understood;
}

bool debug_parse(const char *text)
{
	const char *block = block_text;
	bool understood = true;

	others = 0;
	debug_blocks.n = 0;
	snprintf(block_text, sizeof(block_text), "%s", text);
	while (*block) {
		size_t length = strcspn(block, ";");

		understood &= read_block(block, length);
		block += length;
		block += *block == ';';
	}
	return understood;
}

slab_flags_t debug_flags_of(const char *name, slab_flags_t flags)
{
	slab_flags_t own = flags & DEBUG_FLAGS;
	const struct os_name *block;

	if (flags & (SLAB_NO_USER_FLAGS | SLAB_SECRET))
		return own;
	block = os_names_find(&debug_blocks, name);
	return own | (block ? block->value : others);
}

void debug_switch(struct slab_cache *cache, slab_flags_t flag, bool on)
{
	if (flag == DEBUG_QUARANTINE)
		quarantine_begin();
	if (on)
		os_fetch_or(&debug_of(cache)->switched, flag);
	else
		os_fetch_and(&debug_of(cache)->switched, ~flag);
}

slab_flags_t debug_flags_now(const struct slab_cache *cache)
{
	const struct debug_cache *debug = debug_of(cache);

	return (debug->flags & ~DEBUG_SWITCHED) | os_load_relaxed(&debug->switched);
}

void debug_letters(const struct slab_cache *cache, char letters[DEBUG_LETTERS])
{
	slab_flags_t flags = debug_flags_now(cache);

	for (const char *letter = all_letters; *letter; letter++)
		if (flags & debug_flag_of(*letter))
			*letters++ = *letter;
	*letters = '\0';
}
