/* SPDX-License-Identifier: MIT */
/* The maple tree as a user of either language sees it: loops over entries of a type. */
#include <sheaf/maple_tree.h>

#if defined(PTHREAD_MUTEX_INITIALIZER) || defined(BUFSIZ)
#error "<sheaf/maple_tree.h> brings in <pthread.h> or <stdio.h>"
#endif

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct maple_tree named = MTREE_INIT_EXT(named, MT_FLAGS_LOCK_EXTERN, lock);

/* A name that is neither the kernel's nor has a prefix is the user's. */
static int wr_none, wr_invalid, wr_append;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

struct extent {
	unsigned long from, length;
};

static struct extent extents[] = {{10, 5}, {20, 10}, {40, 1}};

static unsigned long sum_up(struct maple_tree *mt)
{
	MA_STATE(mas, mt, 0, 0);
	struct extent *extent;
	unsigned long sum = 0;

	mas_for_each(&mas, extent, ULONG_MAX) sum += extent->length;
	return sum;
}

static unsigned long sum_down(struct maple_tree *mt)
{
	MA_STATE(mas, mt, ULONG_MAX, ULONG_MAX);
	struct extent *extent;
	unsigned long sum = 0;

	mas_for_each_rev(&mas, extent, 0) sum += extent->length;
	return sum;
}

static unsigned long sum_by_tree(struct maple_tree *mt)
{
	unsigned long sum = 0, index = 0;
	struct extent *extent;

	mt_for_each(mt, extent, index, ULONG_MAX) sum += extent->length;
	return sum;
}

#ifdef __cplusplus
#define REFERENCE &
#else
#define REFERENCE
#endif

/* An entry that is a member and read only, one of any type; in C++ a reference. */
struct search {
	const struct extent *found;
	void *any;
};

static bool find_length(struct maple_tree *mt, unsigned long length, struct search *search)
{
	const struct extent *REFERENCE extent = search->found;
	unsigned long index = 0;
	MA_STATE(mas, mt, 0, 0);

	mt_for_each(mt, extent, index, ULONG_MAX)
	{
		if (extent->length == length)
			break;
	}
	mas_for_each(&mas, search->any, ULONG_MAX)
	{
		search->found = (const struct extent *)search->any;
		if (search->found->length == length)
			return extent == search->found;
	}
	return false;
}

int main(void)
{
	static DEFINE_MTREE(tree);
	struct search search = {NULL, NULL};

	CHECK(mt_external_lock(&named) && mtree_empty(&named));
	CHECK(wr_none == 0 && wr_invalid == 0 && wr_append == 0);

	for (unsigned int i = 0; i < sizeof(extents) / sizeof(extents[0]); i++)
		CHECK(mtree_insert_range(&tree, extents[i].from,
					 extents[i].from + extents[i].length - 1, &extents[i],
					 GFP_KERNEL) == 0);
	CHECK(sum_up(&tree) == 16 && sum_down(&tree) == 16 && sum_by_tree(&tree) == 16);
	CHECK(find_length(&tree, 10, &search) && search.found == &extents[1]);
	CHECK(!find_length(&tree, 11, &search) && !search.any);
	mtree_destroy(&tree);
	return 0;
}
