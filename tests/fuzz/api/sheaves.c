/* SPDX-License-Identifier: MIT */
/* Steps with prefilled sheaves, whose objects are in use. */
#include <errno.h>

#include "fuzz/api/model.h"

static struct {
	struct slab_sheaf *sheaf;
	struct kmem_cache *s;
	unsigned int left;
} sheaves[MAX_SHEAVES];

/* Its objects are in use. */
static void set_left(unsigned int i, unsigned int left)
{
	WANT(kmem_cache_sheaf_size(sheaves[i].sheaf) == left);
	known_of(sheaves[i].s)->in_use += left - sheaves[i].left;
	sheaves[i].left = left;
}

static void prefill(void)
{
	struct known *k = need_cache();
	unsigned int i = below(MAX_SHEAVES), n = count(200);
	gfp_t flags;

	if (!k || sheaves[i].sheaf || k->size * n > MiB)
		return;
	flags = some_flags();
	sheaves[i].sheaf = kmem_cache_prefill_sheaf(k->s, flags, n);
	sheaves[i].s = k->s;
	sheaves[i].left = 0;
	if (!sheaves[i].sheaf) {
		failed(k, flags, ROOT, 0);
		return;
	}
	WANT(kmem_cache_sheaf_size(sheaves[i].sheaf) >= n);
	set_left(i, kmem_cache_sheaf_size(sheaves[i].sheaf));
}

static void refill(void)
{
	unsigned int i = below(MAX_SHEAVES), n = count(200);
	gfp_t flags = some_flags();
	struct known *k;
	int error;

	if (!sheaves[i].sheaf)
		return;
	k = known_of(sheaves[i].s);
	if (k->size * n > MiB)
		return;
	error = kmem_cache_refill_sheaf(k->s, flags, &sheaves[i].sheaf, n);
	if (error)
		WANT(error == -ENOMEM &&
		     kmem_cache_sheaf_size(sheaves[i].sheaf) >= sheaves[i].left);
	else
		WANT(kmem_cache_sheaf_size(sheaves[i].sheaf) >= n);
	if (error)
		failed(k, flags, ROOT, 0);
	set_left(i, kmem_cache_sheaf_size(sheaves[i].sheaf));
}

static void pop(void)
{
	unsigned int i = below(MAX_SHEAVES);

	for (unsigned int n = count(MAX_BULK); n > 0; n--) {
		struct known *k = sheaves[i].sheaf ? known_of(sheaves[i].s) : NULL;
		gfp_t flags;
		void *p;

		if (!k || !has_room(k->size))
			return;
		flags = flags_for(k);
		p = kmem_cache_alloc_from_sheaf(k->s, flags, sheaves[i].sheaf);
		WANT(!p == !sheaves[i].left);
		if (!p)
			return;
		set_left(i, sheaves[i].left - 1);
		groups_known[payer(k, flags)].exceeded = true;
		adopt(p, k->size, flags, k, payer(k, flags));
	}
}

static void return_sheaf(unsigned int i, gfp_t flags)
{
	if (!sheaves[i].sheaf)
		return;
	known_of(sheaves[i].s)->in_use -= sheaves[i].left;
	kmem_cache_return_sheaf(sheaves[i].s, flags, sheaves[i].sheaf);
	sheaves[i].sheaf = NULL;
}

static void return_one(void)
{
	unsigned int i = below(MAX_SHEAVES);

	return_sheaf(i, some_flags());
}

void return_sheaves(struct kmem_cache *s)
{
	for (unsigned int i = 0; i < MAX_SHEAVES; i++)
		if (!s || sheaves[i].s == s)
			return_sheaf(i, GFP_KERNEL);
}

const struct step sheaf_steps[] = {
	{"prefill", prefill, 3},   {"refill", refill, 2}, {"pop", pop, 4},
	{"return", return_one, 3}, {NULL, NULL, 0},
};
