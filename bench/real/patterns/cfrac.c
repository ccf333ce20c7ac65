/* SPDX-License-Identifier: MIT */
/*
 * Numbers of any length, each a small block that is freed as soon as its only reader is done:
 * the continued fraction of a root, whose convergents are taken modulo the number, as when
 * numbers are factored by it.
 */
#include <string.h>

#include "pattern.h"

#define TERMS 200

struct number {
	size_t size; /* as in each block */
	uint32_t n, limbs[];
};

static struct number *new_number(uint32_t n)
{
	struct number *number = make(sizeof(*number) + 4 * n + 4); /* the last byte is make()'s */

	number->n = n;
	memset(number->limbs, 0, 4 * n);
	return number;
}

static struct number *small(uint64_t value)
{
	struct number *number = new_number(2);

	number->limbs[0] = (uint32_t)value;
	number->limbs[1] = (uint32_t)(value >> 32);
	return number;
}

/* Frees a. */
static struct number *times(struct number *a, uint32_t factor)
{
	struct number *product = new_number(a->n + 1);
	uint64_t carry = 0;

	for (uint32_t i = 0; i < a->n; i++, carry >>= 32)
		product->limbs[i] = (uint32_t)(carry += (uint64_t)a->limbs[i] * factor);
	product->limbs[a->n] = (uint32_t)carry;
	release(a);
	return product;
}

/* Frees a, not b. */
static struct number *plus(struct number *a, const struct number *b)
{
	uint32_t longer = a->n > b->n ? a->n : b->n;
	struct number *sum = new_number(longer + 1);
	uint64_t carry = 0;

	for (uint32_t i = 0; i <= longer; i++, carry >>= 32) {
		carry += (i < a->n ? a->limbs[i] : 0) + (uint64_t)(i < b->n ? b->limbs[i] : 0);
		sum->limbs[i] = (uint32_t)carry;
	}
	release(a);
	return sum;
}

static struct number *copy(const struct number *a)
{
	struct number *copied = new_number(a->n);

	memcpy(copied->limbs, a->limbs, 4 * a->n);
	return copied;
}

/* Frees a. The divisor has 64 bits, so that long division takes a limb at a time. */
static struct number *modulo(struct number *a, uint64_t divisor)
{
	unsigned __int128 rest = 0;

	for (uint32_t i = a->n; i > 0; i--)
		rest = (rest << 32 | a->limbs[i - 1]) % divisor;
	release(a);
	return small((uint64_t)rest);
}

static uint64_t root(uint64_t value)
{
	uint64_t found = 0;

	for (int bit = 31; bit >= 0; bit--)
		if ((found | 1ull << bit) * (found | 1ull << bit) <= value)
			found |= 1ull << bit;
	return found;
}

/* Terms of the continued fraction of the root of this number, which is not a square. */
static uint64_t convergents(uint64_t of)
{
	uint64_t first = root(of), m = 0, d = 1, a = first, sum;
	struct number *before = small(1), *last = small(first), *this;

	for (int i = 0; i < TERMS; i++) {
		m = d * a - m;
		d = (of - m * m) / d;
		a = (first + m) / d;
		this = modulo(plus(times(copy(last), (uint32_t)a), before), of);
		release(before);
		before = last;
		last = this;
	}
	sum = last->limbs[0];
	release(before);
	release(last);
	return sum;
}

void *cfrac(void *number)
{
	uint64_t base = 4000000000000000037ull + 2 * (uintptr_t)number, sum = 0;

	for (size_t n = 0; n < rounds; n++)
		sum += convergents(base + 6 * n);
	if (!sum)
		fail("a sum is zero");
	return NULL;
}
