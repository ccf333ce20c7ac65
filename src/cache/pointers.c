/* SPDX-License-Identifier: MIT */
/* The pointers in the sheaves of a cache, copied and sorted; see verify.h. */
#include "cache/verify.h"

#include "os/memory.h"
#include "percpu/drain.h"

static void count_sheaf(void *data, struct sheaf *sheaf)
{
	*(size_t *)data += sheaf_size(sheaf);
}

static void copy_sheaf(void *data, struct sheaf *sheaf)
{
	struct pointers *p = data;

	for (unsigned int i = 0; i < sheaf_size(sheaf) && p->n < p->room; i++)
		p->at[p->n++] = sheaf->objects[i];
}

static void swap(void **a, void **b)
{
	void *c = *a;

	*a = *b;
	*b = c;
}

static void sift_down(void **at, size_t i, size_t n)
{
	for (size_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && (uintptr_t)at[child] < (uintptr_t)at[child + 1])
			child++;
		if ((uintptr_t)at[i] >= (uintptr_t)at[child])
			return;
		swap(&at[i], &at[child]);
	}
}

/* By address. A heapsort, because qsort() calls malloc(), which may be the program's. */
static void sort(void **at, size_t n)
{
	for (size_t i = n / 2; i > 0; i--)
		sift_down(at, i - 1, n);
	for (; n > 1; n--) {
		swap(&at[0], &at[n - 1]);
		sift_down(at, 0, n - 1);
	}
}

size_t pointers_find(const struct pointers *p, const char *address)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if ((char *)p->at[middle] < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static size_t pointers_bytes(const struct pointers *p)
{
	return (p->room * sizeof(void *) + OS_PAGE) & ~(OS_PAGE - 1);
}

bool pointers_copy(struct pointers *p, struct sheaf_cache *cache)
{
	sheaf_for_each(cache, count_sheaf, &p->room);
	p->at = os_map(pointers_bytes(p));
	if (!p->at)
		return false;
	sheaf_for_each(cache, copy_sheaf, p);
	sort(p->at, p->n);
	return true;
}

void pointers_release(struct pointers *p)
{
	if (p->at)
		os_unreserve(p->at, pointers_bytes(p));
}
