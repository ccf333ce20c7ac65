/* SPDX-License-Identifier: MIT */
/* See tally.h. */
#include "tally.h"

#include <string.h>

struct store entries = {.name = "entry", .size = sizeof(struct entry)};

/* FNV-1a, and a last mix so that the high bits count too. */
static uint32_t hash_of(const char *text, size_t length)
{
	uint32_t hash = 2166136261u;

	while (length--)
		hash = (hash ^ (uint8_t)*text++) * 16777619u;
	return hash ^ hash >> 15;
}

static int compare(const struct entry *entry, uint32_t hash, const char *text, size_t length)
{
	if (entry->hash != hash)
		return entry->hash < hash ? -1 : 1;
	if (entry->length != length)
		return entry->length < length ? -1 : 1;
	return memcmp(entry->text, text, length);
}

/* The place of the entry for this word, or the place where it belongs. */
static struct entry **find(struct tally *tally, uint32_t hash, const char *text, size_t length)
{
	struct entry **at = &tally->root;

	while (*at) {
		int order = compare(*at, hash, text, length);

		if (!order)
			break;
		at = order < 0 ? &(*at)->right : &(*at)->left;
	}
	return at;
}

void tally_add(struct tally *tally, const struct word *word)
{
	uint32_t hash = hash_of(word->text, word->length);
	struct entry **at = find(tally, hash, word->text, word->length);
	struct entry *entry = *at;

	if (!entry) {
		entry = *at = store_get(&entries);
		store_got(&entries, 1);
		*entry = (struct entry){.hash = hash, .length = word->length};
		memcpy(entry->text, word->text, word->length);
	}
	entry->count++;
	tally->count++;
}

static void free_entry(struct entry *entry)
{
	store_gave(&entries, 1);
	store_put(&entries, entry);
}

static void merge_below(struct tally *into, struct entry *entry)
{
	struct entry *left, *right, **at;

	if (!entry)
		return;
	left = entry->left;
	right = entry->right;
	at = find(into, entry->hash, entry->text, entry->length);
	if (*at) {
		(*at)->count += entry->count;
		free_entry(entry);
	} else {
		entry->left = entry->right = NULL;
		*at = entry;
	}
	merge_below(into, left);
	merge_below(into, right);
}

void tally_merge(struct tally *into, struct tally *from)
{
	into->count += from->count;
	merge_below(into, from->root);
	*from = (struct tally){0};
}

static void top_below(const struct entry *entry, const struct entry **top, int n)
{
	if (!entry)
		return;
	for (int i = 0; i < n; i++)
		if (!top[i] || top[i]->count < entry->count) {
			memmove(top + i + 1, top + i, (size_t)(n - i - 1) * sizeof(*top));
			top[i] = entry;
			break;
		}
	top_below(entry->left, top, n);
	top_below(entry->right, top, n);
}

void tally_top(const struct tally *tally, const struct entry **top, int n)
{
	memset(top, 0, (size_t)n * sizeof(*top));
	top_below(tally->root, top, n);
}

static size_t free_below(struct entry *entry)
{
	size_t count;

	if (!entry)
		return 0;
	count = entry->count + free_below(entry->left) + free_below(entry->right);
	free_entry(entry);
	return count;
}

void tally_free(struct tally *tally)
{
	if (free_below(tally->root) != tally->count) {
		fprintf(stderr, "words: the counts of the words do not add up\n");
		exit(1);
	}
	*tally = (struct tally){0};
}
