/* SPDX-License-Identifier: MIT */
/*
 * Objects on nodes: requests for each, what stays local, remote frees, and all of these together
 * under load. On a machine with several nodes, also where the pages are. On others, nodes are
 * invented: by numa=fake, or by internal/kit/invented_machine.c.
 */
#include <sheaf/slab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal/kit/node_load.h"
#include "internal/kit/placement.h"
#include "internal/kit/ready.h"
#include "kit/cache.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/section.h"
#include "page/limit.h"
#include "page/page.h"
#include "percpu/drain.h"
#include "percpu/rows.h"

enum {
	NR_OBJECTS = 300,
	MiB = 1 << 20
};

static const size_t sizes[] = {64, 700, 4096, 30000};

static void objects_of_each_node(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct kmem_cache *s = make("of-nodes", sizes[i], no_samples());
		static void *objects[NR_OBJECTS];

		for (int node = 0; node < (int)os.nr_nodes; node++) {
			for (unsigned int j = 0; j < NR_OBJECTS; j++) {
				gfp_t flags = j % 2 ? GFP_KERNEL : GFP_NOWAIT | __GFP_THISNODE;

				objects[j] = kmem_cache_alloc_node(s, flags, node);
				assert_non_null(objects[j]);
				memset(objects[j], 1, sizes[i]);
				assert_int_equal(page_node(objects[j]), node);
			}
			for (unsigned int j = 0; j < NR_OBJECTS; j++) {
				assert_true(is_placed_on((unsigned int)node, objects[j]));
				kmem_cache_free(s, objects[j]);
			}
		}
		assert_int_equal(kmem_cache_verify(s), 0);
		assert_true(all_freed(s));
		assert_int_equal(kmem_cache_shrink(s), 0);
		assert_int_equal(look(s).slabs, 0);
		kmem_cache_destroy(s);
	}
}

/* Node 0 has no slabs, and others have more partial ones than they keep: the nearest one supplies
 * objects. */
static void a_near_node_helps_out(void **state)
{
	struct kmem_cache *s = make("helped", 512, no_samples());
	struct slab_cache *slabs = &s->sheaf.slab;
	unsigned int n = 12 * slabs->oo.objects;
	void **taken = calloc((size_t)os.nr_nodes * n, sizeof(*taken)), *object;

	(void)state;
	for (unsigned int node = 1; node < os.nr_nodes; node++) {
		assert_int_equal(slab_take(slabs, node, SLAB_THIS_NODE, taken + node * n, n), n);
		for (unsigned int i = 0; i < n; i += slabs->oo.objects)
			slab_give(slabs, taken + node * n + i, slabs->oo.objects / 2, "test");
	}
	assert_int_equal(slab_take(slabs, 0, SLAB_PREFER_NODE, &object, 1), 1);
	assert_int_equal(page_node(object), os_near(0, os.nr_nodes > 1));
	slab_give(slabs, &object, 1, "test");
	assert_int_equal(slab_take(slabs, 0, SLAB_WANT_NODE, &object, 1), 1);
	assert_int_equal(page_node(object), 0);
	slab_give(slabs, &object, 1, "test");
	for (unsigned int node = 1; node < os.nr_nodes; node++)
		for (unsigned int i = 0; i < n; i += slabs->oo.objects)
			slab_give(slabs, taken + node * n + i + slabs->oo.objects / 2,
				  slabs->oo.objects - slabs->oo.objects / 2, "test");
	free(taken);
	kmem_cache_destroy(s);
}

/* Take this node's free pages, linked by their first words, which no slab has now. */
static struct slab *take_pages(unsigned int node)
{
	struct slab *all = NULL, *page;

	while ((page = page_alloc(node, 0)) != NULL) {
		*(struct slab **)page_address(page) = all;
		all = page;
	}
	return all;
}

static void give_pages(struct slab *all)
{
	while (all) {
		struct slab *next = *(struct slab **)page_address(all);

		page_free(all, 0);
		all = next;
	}
}

static bool pin_to_node(unsigned int node)
{
	for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++)
		if (os.node_of_row[cpu] == node && pin(cpu))
			return true;
	return false;
}

/* No node has memory, and all free objects are in sheaves of node 1: node 0 takes these. */
static void sheaves_of_another_node(void **state)
{
	struct kmem_cache *s = make("afar", 256, no_samples());
	static void *objects[NR_OBJECTS], *rest[4096];
	struct slab *pages_of[2];
	unsigned int left = 0, n = 0;
	cpu_set_t before;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	if (os.nr_nodes != 2 || !sheaf_capacity(&s->sheaf) || !pin_to_node(0)) {
		kmem_cache_destroy(s);
		skip();
	}
	/* This gives the CPU a row. */
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	if (!pin_to_node(1)) {
		kmem_cache_destroy(s);
		skip();
	}
	for (unsigned int i = 0; i < NR_OBJECTS; i++)
		assert_non_null(objects[i] = kmem_cache_alloc(s, GFP_KERNEL));
	for (unsigned int i = 0; i < NR_OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
	page_set_limits(0, OS_PAGE);
	for (unsigned int node = 0; node < 2; node++) {
		pages_of[node] = take_pages(node);
		while (slab_take(&s->sheaf.slab, node, SLAB_THIS_NODE, &rest[left], 1))
			assert_true(++left < sizeof(rest) / sizeof(rest[0]));
	}
	pin_to_node(0);
	do
		assert_non_null(objects[n] = kmem_cache_alloc(s, GFP_NOWAIT));
	while (page_node(objects[n++]) == 0);
	while (n > 0)
		kmem_cache_free(s, objects[--n]);
	page_set_limits(0, 0);
	give_pages(pages_of[0]);
	give_pages(pages_of[1]);
	slab_give(&s->sheaf.slab, rest, left, "test");
	sched_setaffinity(0, sizeof(before), &before);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

static void large_blocks_of_each_node(void **state)
{
	static const size_t large[] = {64 << 10, 3 * MiB, 20 * MiB};

	(void)state;
	for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
		for (int node = 0; node < (int)os.nr_nodes; node++) {
			char *block = kvmalloc_node(large[i], GFP_KERNEL, node);

			assert_non_null(block);
			for (size_t at = 0; at < large[i]; at += 64 << 10) {
				block[at] = 1;
				assert_true(is_placed_on((unsigned int)node, block + at));
			}
			kvfree(block);
		}
}

static void arrays_of_each_node(void **state)
{
	(void)state;
	if (has_debug_letter('S')) {
		print_message("skipped: guarded objects are on no certain node\n");
		skip();
	}
	for (int node = 0; node < (int)os.nr_nodes; node++) {
		void *p = kmalloc_array_node(10, 40, GFP_KERNEL | __GFP_THISNODE, node);

		assert_int_equal(page_node(p), node);
		kfree(p);
		p = kcalloc_node(100, 40, GFP_KERNEL, node);
		assert_int_equal(page_node(p), node);
		kfree(p);
	}
}

/* What a thread allocates without naming a node is of the node of its CPU, and so is its slot. */
static void local_objects_and_slots(void **state)
{
	struct kmem_cache *s = make("local", 64, no_samples());
	unsigned int nodes = 0;
	cpu_set_t before;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++) {
		unsigned int node = os.node_of_row[cpu];
		static void *objects[NR_OBJECTS];

		if (os.nr_nodes == 1 || !pin(cpu))
			continue;
		nodes += os.node[node].n > 0;
		for (unsigned int i = 0; i < NR_OBJECTS; i++) {
			objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
			assert_int_equal(page_node(objects[i]), node);
			memset(objects[i], 1, 64);
			assert_true(is_placed_on(node, objects[i]));
		}
		if (sheaf_capacity(&s->sheaf))
			assert_true(is_placed_on(node, slot_of_row((char *)s, cpu)));
		for (unsigned int i = 0; i < NR_OBJECTS; i++)
			kmem_cache_free(s, objects[i]);
		/* Idle CPUs give objects back to their slabs, and another node may take what is
		 * more than it keeps. */
		assert_int_equal(kmem_cache_shrink(s), 0);
	}
	sched_setaffinity(0, sizeof(before), &before);
	kmem_cache_destroy(s);
	if (!nodes)
		skip();
}

/* The system's own account of the library's addresses: the policy of each part, and its pages. */
static void check_line(const char *line, unsigned long *pages_on)
{
	static const char prefer[] = " prefer:";
	char *rest, *policy;
	uintptr_t at = strtoul(line, &rest, 16) - (uintptr_t)pages.base;
	unsigned int node = (unsigned int)(at >> pages.range_shift);
	int where;

	if (at >= pages.size)
		return;
	where = os.memory_of_node[node];
	if (where == OS_NO_NODE || !has_memory((unsigned int)where))
		return;
	policy = strstr(rest, prefer);
	if (!policy || strtol(policy + strlen(prefer), NULL, 10) != where)
		fail_msg("not of node %d: %s", where, line);
	while ((rest = strstr(rest, " N")) != NULL) {
		long of = strtol(rest + 2, &rest, 10);
		unsigned long n = *rest == '=' ? strtoul(rest + 1, NULL, 10) : 0;

		if (n)
			assert_int_equal(of, where);
		pages_on[node] += n;
	}
}

static void *looked_for;
static bool found;

static void look_into(void *data, struct sheaf *sheaf, bool waits)
{
	(void)waits;
	(void)data;
	for (uint32_t i = 0; i < sheaf_size(sheaf); i++)
		found |= sheaf->objects[i] == looked_for;
}

static bool in_sheaf(struct kmem_cache *s, void *object)
{
	looked_for = object;
	found = false;
	sheaf_for_each(&s->sheaf, look_into, NULL);
	return found;
}

static void remote_frees_wait_apart(void **state)
{
	struct kmem_cache *s = make("remote", 64, 0);
	void *local, *remote, *both[2];

	(void)state;
	needs(NEED_SHEAVES);
	if (os.nr_nodes < 2 || !pin(0))
		skip();
	remote = kmem_cache_alloc_node(s, GFP_KERNEL, 1);
	local = kmem_cache_alloc(s, GFP_KERNEL);
	both[0] = kmem_cache_alloc_node(s, GFP_KERNEL, 1);
	both[1] = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_cache_free(s, remote);
	assert_true(in_sheaf(s, remote));
	kmem_cache_free(s, local);
	assert_true(in_sheaf(s, local));
	kmem_cache_free_bulk(s, 2, both);
	assert_true(in_sheaf(s, both[0]));
	assert_true(in_sheaf(s, both[1]));
	assert_int_equal(kmem_cache_verify(s), 0);
	/* CPUs of this node do not get them. */
	for (int i = 0; i < 2; i++) {
		both[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_int_equal(page_node(both[i]), os_node());
	}
	kmem_cache_free_bulk(s, 2, both);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

static void numa_maps_agrees(void **state)
{
	unsigned long pages_on[OS_MAX_NODES] = {0};
	FILE *maps = fopen("/proc/self/numa_maps", "re");
	struct kmem_cache *s = make("mapped", 4096, no_samples());
	static void *objects[NR_OBJECTS];
	char line[1024];

	(void)state;
	if (!maps || os.nr_nodes == 1) {
		kmem_cache_destroy(s);
		skip();
	}
	for (unsigned int i = 0; i < NR_OBJECTS; i++) {
		objects[i] = kmem_cache_alloc_node(s, GFP_KERNEL, (int)(i % os.nr_nodes));
		memset(objects[i], 1, 4096);
	}
	while (fgets(line, sizeof(line), maps))
		check_line(line, pages_on);
	fclose(maps);
	for (unsigned int node = 0; node < os.nr_nodes; node++) {
		int where = os.memory_of_node[node];

		if (where != OS_NO_NODE && has_memory((unsigned int)where))
			assert_true(pages_on[node] >= NR_OBJECTS / os.nr_nodes);
	}
	for (unsigned int i = 0; i < NR_OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
	kmem_cache_destroy(s);
}

static void requests_under_load(void **state)
{
	(void)state;
	load_begin();
	assert_true(load_end());
}

int test_numa(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_of_each_node),
		cmocka_unit_test(a_near_node_helps_out),
		cmocka_unit_test(sheaves_of_another_node),
		cmocka_unit_test(large_blocks_of_each_node),
		cmocka_unit_test(arrays_of_each_node),
		cmocka_unit_test(local_objects_and_slots),
		cmocka_unit_test(remote_frees_wait_apart),
		cmocka_unit_test(numa_maps_agrees),
		cmocka_unit_test(requests_under_load),
	};

	return cmocka_run_group_tests_name("numa", tests, setup, NULL);
}
