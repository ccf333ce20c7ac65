/* SPDX-License-Identifier: MIT */
/*
 * Two tenants of one program, each limited to 16 MiB: one asks for more, gets NULL, and gives up
 * its query; the other one never notices.
 *
 *     cc tenants.c $(pkg-config --cflags --libs libsheaf) -pthread -o tenants && ./tenants
 */
#include <pthread.h>
#include <sheaf/group.h>
#include <sheaf/slab.h>
#include <stdio.h>

#define LIMIT ((size_t)16 << 20)

struct row {
	struct row *next;
	char text[200];
};

struct tenant {
	const char *name;
	unsigned int rows; /* of each query */
	unsigned int done, refused;
	struct kmem_group_stats stats;
};

static struct kmem_cache *rows; /* SLAB_ACCOUNT: each row is charged to the current group */

static void free_rows(struct row *first)
{
	while (first) {
		struct row *row = first;

		first = row->next;
		kmem_cache_free(rows, row);
	}
}

/* Returns whether there was memory for the query's result. */
static int query(unsigned int n)
{
	struct row *first = NULL;

	for (; n > 0; n--) {
		struct row *row = kmem_cache_alloc(rows, GFP_KERNEL);

		if (!row)
			break;
		row->next = first;
		first = row;
	}
	free_rows(first);
	return n == 0;
}

static void *serve(void *data)
{
	struct tenant *tenant = data;
	struct kmem_group_args limits = {.hard_limit = LIMIT};
	struct kmem_group *group = kmem_group_create(tenant->name, NULL, &limits);
	struct kmem_group *before = kmem_group_set_current(group);

	for (int i = 0; i < 20; i++)
		if (query(tenant->rows))
			tenant->done++;
		else
			tenant->refused++;
	kmem_group_restore_current(before);
	if (group)
		kmem_group_stats(group, &tenant->stats);
	kmem_group_put(group);
	return NULL;
}

int main(void)
{
	struct tenant tenants[] = {{.name = "modest", .rows = 10000},
				   {.name = "greedy", .rows = 1000000}};
	pthread_t threads[2];

	rows = KMEM_CACHE(row, SLAB_ACCOUNT);
	if (!rows)
		return 1;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, serve, &tenants[i]))
			return 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 2; i++)
		printf("%s: %u queries done, %u refused; at most %llu of %zu bytes\n",
		       tenants[i].name, tenants[i].done, tenants[i].refused,
		       (unsigned long long)tenants[i].stats.peak, LIMIT);
	kmem_cache_destroy(rows);
	return !(tenants[0].done == 20 && tenants[1].refused == 20 &&
		 tenants[1].stats.peak <= LIMIT);
}
