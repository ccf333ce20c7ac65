/* SPDX-License-Identifier: MIT */
/* One misuse of memory, by its name: each is on a line of its own, which the report must name. No
 * name: none. */
#include <sheaf/debug.h>
#include <sheaf/kmalloc.h>
#include <sheaf/mempool.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message {
	struct message *next;
	char text[48];
};

static struct kmem_cache *messages, *stable, *made;
static volatile char *volatile at; /* what the program looks at */

static void make(void *object)
{
	memset(object, 'm', sizeof(struct message));
}

static void use_after_free(void)
{
	struct message *m = kmem_cache_alloc(messages, GFP_KERNEL);

	at = m->text;
	kmem_cache_free(messages, m);
	at[0] = '!'; /* use-after-free */
}

static void read_after_free(void)
{
	struct message *m = kmem_cache_zalloc(messages, GFP_KERNEL);

	at = m->text;
	kmem_cache_free(messages, m);
	if (at[0] == '!') /* read-after-free */
		puts("!");
}

static void past_the_end(void)
{
	at = kmem_cache_alloc(messages, GFP_KERNEL);
	at[sizeof(struct message)] = '!'; /* past-the-end */
}

static void in_front(void)
{
	at = kmem_cache_alloc(messages, GFP_KERNEL);
	at[-1] = '!'; /* in-front */
}

static void past_the_request(void)
{
	at = kmalloc(16 * (volatile size_t){3}, GFP_KERNEL);
	at[48] = '!'; /* past-the-request */
}

static void past_some_bytes(void)
{
	at = kmalloc((volatile size_t){13}, GFP_KERNEL);
	at[13] = '!'; /* past-some-bytes */
}

static void past_a_large_block(void)
{
	at = kmalloc((volatile size_t){1500000}, GFP_KERNEL);
	at[1500000] = '!'; /* past-a-large-block */
}

static void large_block_after_free(void)
{
	void *block = kmalloc((volatile size_t){1500000}, GFP_KERNEL);

	at = block;
	kfree(block);
	at[100] = '!'; /* large-block-after-free */
}

static void slab_after_free(void)
{
	void *objects[500];

	kmem_cache_alloc_bulk(messages, GFP_KERNEL, 500, objects);
	at = objects[250];
	kmem_cache_free_bulk(messages, 500, objects);
	kmem_cache_shrink(messages);
	at[8] = '!'; /* slab-after-free */
}

static void after_kfree_rcu(void)
{
	struct message *m = kmem_cache_zalloc(messages, GFP_KERNEL);

	at = m->text;
	kmem_cache_free_rcu(messages, m);
	at[0] = '!'; /* after-kfree-rcu */
}

static void uninitialised(void)
{
	at = kmem_cache_alloc(messages, GFP_KERNEL);
	if (at[20] == '!') /* uninitialised */
		puts("!");
}

static void uninitialised_again(void)
{
	void *object = kmem_cache_zalloc(messages, GFP_KERNEL);

	kmem_cache_free(messages, object);
	at = kmem_cache_alloc(messages, GFP_KERNEL);
	if (at[20] == '!') /* uninitialised-again */
		puts("!");
}

static void leak(void)
{
	at = kmem_cache_alloc(messages, GFP_KERNEL); /* leak */
	at = NULL;
}

static void look_at(const char *object, size_t bytes, char expected)
{
	for (size_t i = 0; i < bytes; i++)
		if (object[i] != expected)
			abort();
}

/* None of this may be reported (TOOLS-W1). */
static void right_use(void)
{
	struct message *m = kmem_cache_zalloc(messages, GFP_KERNEL);
	struct slab_sheaf *sheaf;
	mempool_t *pool;
	void *objects[64];
	char *block;

	look_at((char *)m, sizeof(*m), 0);
	m->next = malloc(10); /* held by an object only */
	at = (char *)m;

	m = kmem_cache_alloc(made, GFP_KERNEL);
	look_at((char *)m, sizeof(*m), 'm');
	kmem_cache_free(made, m);
	m = kmem_cache_alloc(made, GFP_KERNEL);
	look_at((char *)m, sizeof(*m), 'm');
	kmem_cache_free(made, m);

	if (stable) {
		m = kmem_cache_alloc(stable, GFP_KERNEL);
		memset(m, 's', sizeof(*m));
		kmem_cache_free(stable, m);
		look_at((char *)m, sizeof(*m), 's'); /* readers may */
	}

	if (!kmem_cache_alloc_bulk(messages, GFP_KERNEL | __GFP_ZERO, 64, objects))
		abort();
	for (int i = 0; i < 64; i++)
		look_at(objects[i], sizeof(*m), 0);
	kmem_cache_free_bulk(messages, 64, objects);

	sheaf = kmem_cache_prefill_sheaf(messages, GFP_KERNEL, 10);
	m = kmem_cache_alloc_from_sheaf(messages, GFP_KERNEL | __GFP_ZERO, sheaf);
	look_at((char *)m, sizeof(*m), 0);
	kmem_cache_return_sheaf(messages, GFP_KERNEL, sheaf);
	kmem_cache_free_rcu(messages, m);

	m = kmem_cache_alloc_nolock(messages, __GFP_ZERO);
	if (m)
		look_at((char *)m, sizeof(*m), 0);
	kmem_cache_free_nolock(messages, m);

	pool = mempool_create_slab_pool(4, messages);
	m = mempool_alloc(pool, GFP_KERNEL);
	memset(m, 1, sizeof(*m));
	mempool_free(m, pool);
	mempool_destroy(pool);

	for (size_t size = 1; size < 2 << 20; size = size * 7 / 4 + 1) {
		block = kzalloc(size, GFP_KERNEL);
		look_at(block, size, 0);
		memset(block, 'b', size);
		block = krealloc(block, size + size / 2 + 1, GFP_KERNEL);
		look_at(block, size, 'b');
		memset(block, 'b', size + size / 2 + 1);
		block = krealloc(block, size / 3 + 1, GFP_KERNEL);
		look_at(block, size / 3 + 1, 'b');
		block = krealloc(block, size / 2 + 1, GFP_KERNEL);
		memset(block, 'b', ksize(block));
		kfree_sensitive(block);
	}
	kmem_cache_shrink(messages);
	kmem_cache_verify(messages);
	/* One object is in use, with its red zones closed. */
	kmem_cache_validate(messages);
	kmem_cache_destroy(made);
}

static const struct {
	const char *name;
	void (*run)(void);
} all[] = {
	{"use-after-free", use_after_free},
	{"read-after-free", read_after_free},
	{"past-the-end", past_the_end},
	{"in-front", in_front},
	{"past-the-request", past_the_request},
	{"past-some-bytes", past_some_bytes},
	{"past-a-large-block", past_a_large_block},
	{"large-block-after-free", large_block_after_free},
	{"slab-after-free", slab_after_free},
	{"after-kfree-rcu", after_kfree_rcu},
	{"uninitialised", uninitialised},
	{"uninitialised-again", uninitialised_again},
	{"leak", leak},
	{"right-use", right_use},
};

int main(int argc, char **argv)
{
	sheaf_rcu_none();
	kfree(kmalloc(8, GFP_KERNEL)); /* the first one has a whole block */
	messages = KMEM_CACHE(message, 0);
	stable = kmem_cache_create("stable", sizeof(struct message), NULL, SLAB_TYPESAFE_BY_RCU);
	made = kmem_cache_create("made", sizeof(struct message), 0, 0, make);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (argc > 1 && !strcmp(argv[1], all[i].name))
			all[i].run();
	return 0;
}
