/* SPDX-License-Identifier: MIT */
/*
 * Fills a few bytes with one value, and checks that they still have it. Red zones and most objects
 * are so small that calls of memset() and memcmp() would cost more than the work itself: up to
 * BYTES_FEW bytes are handled here, in whole words.
 *
 * Locks: none. Callers: src/debug/ only.
 */
#ifndef SHEAF_DEBUG_BYTES_H
#define SHEAF_DEBUG_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BYTES_FEW 64

static inline uint64_t bytes_word(uint8_t byte)
{
	return byte * UINT64_C(0x0101010101010101);
}

/* Word by word; the last word may overlap the one before. */
static inline void bytes_fill(uint8_t *bytes, size_t length, uint8_t byte)
{
	const uint64_t word = bytes_word(byte);

	if (length > BYTES_FEW || length < sizeof(word)) {
		memset(bytes, byte, length);
		return;
	}
	for (size_t i = 0; i + sizeof(word) <= length; i += sizeof(word))
		memcpy(bytes + i, &word, sizeof(word));
	memcpy(bytes + length - sizeof(word), &word, sizeof(word));
}

static inline bool bytes_are(const uint8_t *bytes, size_t length, uint8_t byte)
{
	const uint64_t expected = bytes_word(byte);
	uint64_t word, wrong = 0;

	if (length > BYTES_FEW || length < sizeof(word))
		return !length || (bytes[0] == byte && !memcmp(bytes, bytes + 1, length - 1));
	for (size_t i = 0; i + sizeof(word) <= length; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		wrong |= word ^ expected;
	}
	memcpy(&word, bytes + length - sizeof(word), sizeof(word));
	return !(wrong | (word ^ expected));
}

#endif
