/* SPDX-License-Identifier: MIT */
/* Inspecting a tree: its flags, the check of its invariants, text and picture. */
#include "behaviour.h"

#include <stdlib.h>
#include <unistd.h>

#include "kit/capture.h"

static void flags_and_height(void **state)
{
	struct maple_tree mt;

	(void)state;
	mt_init(&mt);
	assert_false(mt_in_rcu(&mt));
	assert_int_equal(mt_height(&mt), 0);
	fill(&mt, 100);
	assert_int_equal(mt_height(&mt), 2);
	mtree_lock(&mt);
	mt_set_in_rcu(&mt);
	mtree_unlock(&mt);
	assert_true(mt_in_rcu(&mt));
	fill(&mt, 400);
	mtree_lock(&mt);
	mt_clear_in_rcu(&mt);
	mtree_unlock(&mt);
	assert_false(mt_in_rcu(&mt));
	done(&mt);
}

/* --- faults ---------------------------------------------------------------------------------- */

/* Faults for a leaf with 5 or more slots, the first of them free, or for the node above it. */
static void be_dead(enode_t leaf, enode_t above)
{
	(void)above;
	node_of(leaf)->meta |= META_DEAD;
}

static void swap_pivots(enode_t leaf, enode_t above)
{
	unsigned long *pivot = pivots(leaf), first = pivot[0];

	(void)above;
	pivot[0] = pivot[1];
	pivot[1] = first;
}

static void lose_pivot(enode_t leaf, enode_t above)
{
	(void)above;
	pivots(leaf)[end_of(node_of(leaf))] = 3;
}

static void use_slot_beyond(enode_t leaf, enode_t above)
{
	(void)above;
	slots(leaf)[end_of(node_of(leaf)) + 1] = ENTRY(1);
}

static void free_all(enode_t leaf, enode_t above)
{
	(void)above;
	memset(slots(leaf), 0, LEAF_SLOTS * sizeof(void *));
}

static void be_reserved(enode_t leaf, enode_t above)
{
	(void)above;
	slots(leaf)[1] = (void *)6;
}

static void forget_gap(enode_t leaf, enode_t above)
{
	(void)leaf;
	gaps(above)[0]--;
}

static void lose_child(enode_t leaf, enode_t above)
{
	(void)leaf;
	slots(above)[0] = NULL;
}

static void go_too_far(enode_t leaf, enode_t above)
{
	(void)leaf;
	node_of(above)->meta |= META_END;
}

/* Each fault is reported in one line; a correct tree is not reported. */
static void validate_tells_faults(void **state)
{
	static const struct {
		void (*spoil)(enode_t leaf, enode_t above);
		const char *line;
	} faults[] = {
		{be_dead, "it is dead, but still in the tree"},
		{swap_pivots, "pivot 1 is"},
		{lose_pivot, "beyond the end is 3"},
		{use_slot_beyond, "beyond the end is used"},
		{free_all, "it holds nothing but a gap"},
		{be_reserved, "holds the reserved value 0x6"},
		{forget_gap, "but the longest below is"},
		{lose_child, "no node of the level below"},
	};
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	struct path path;
	enode_t leaf, above;

	(void)state;
	fill(&mt, 60);
	path_walk(&path, &mt, 0);
	leaf = path.at[0].e;
	above = path.at[1].e;
	assert_null(slots(leaf)[0]);
	assert_in_range(end_of(node_of(leaf)), 4, 14);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct maple_node leaf_was = *node_of(leaf), above_was = *node_of(above);
		struct capture captured;
		int n, lines;

		faults[i].spoil(leaf, above);
		capture_begin(&captured);
		n = mt_validate(&mt);
		lines = capture_end(&captured);
		*node_of(leaf) = leaf_was;
		*node_of(above) = above_was;
		assert_int_not_equal(n, 0);
		assert_int_equal(lines, n);
		assert_non_null(strstr(captured.text, faults[i].line));
		assert_int_equal(mt_validate(&mt), 0);
	}
	done(&mt);
}

/* The check reads nothing beyond a node that claims more slots than there are. */
static void validate_stops(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	struct path path;
	struct capture captured;
	uint64_t meta;
	int n;

	(void)state;
	fill(&mt, 60);
	path_walk(&path, &mt, 0);
	meta = node_of(path.at[1].e)->meta;
	go_too_far(path.at[0].e, path.at[1].e);
	capture_begin(&captured);
	n = mt_validate(&mt);
	assert_int_equal(capture_end(&captured), n);
	node_of(path.at[1].e)->meta = meta;
	assert_non_null(strstr(captured.text, "end is 15 of 10 slots"));
	done(&mt);
}

/* --- text and picture ------------------------------------------------------------------------ */

static unsigned int count(const char *text, const char *part)
{
	unsigned int n = 0;

	while ((text = strstr(text, part)) != NULL) {
		n++;
		text += strlen(part);
	}
	return n;
}

static char *dumped(const struct maple_tree *mt, int (*dump)(const struct maple_tree *, int))
{
	int file = memfd_create("dumped", MFD_CLOEXEC);
	char *text = calloc(1, 1 << 20);

	errno = 77;
	assert_int_equal(dump(mt, file), 0);
	assert_int_equal(errno, 77);
	assert_true(pread(file, text, (1 << 20) - 1, 0) > 0);
	close(file);
	return text;
}

/* A failed write is reported with the error of write(2). */
static void dump_to_nowhere(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, 0);
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC), unread[2];

	(void)state;
	fill(&mt, 60);
	errno = 77;
	assert_int_equal(mt_dump(&mt, -1), -EBADF);
	assert_int_equal(mt_dump_svg(&mt, -1), -EBADF);
	assert_int_equal(mt_dump(&mt, full), -ENOSPC);
	assert_int_equal(mt_dump_svg(&mt, full), -ENOSPC);
	/* Neither does SIGPIPE end the program. */
	assert_int_equal(pipe2(unread, O_CLOEXEC), 0);
	close(unread[0]);
	assert_int_equal(mt_dump(&mt, unread[1]), -EPIPE);
	assert_int_equal(mt_dump_svg(&mt, unread[1]), -EPIPE);
	assert_int_equal(errno, 77);
	close(unread[1]);
	close(full);
	done(&mt);
}

/* Every range once, and every node. */
static void dump_text(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	char line[64], *text;

	(void)state;
	text = dumped(&mt, mt_dump);
	assert_int_equal(count(text, "\n"), 1);
	free(text);
	store(&mt, 0, 0, ENTRY(7));
	text = dumped(&mt, mt_dump);
	assert_non_null(strstr(text, "\n0: 0x10070\n"));
	free(text);
	store(&mt, 0, 0, NULL);
	fill(&mt, 60);
	text = dumped(&mt, mt_dump);
	assert_non_null(strstr(text, "flags 0x1, height 2\n0 ... 18446744073709551615: node "));
	assert_int_equal(count(text, "(gap "), count(text, ": leaf "));
	for (unsigned long i = 0; i < 60; i++) {
		snprintf(line, sizeof(line), " %lu ... %lu: %p\n", 10 * i + 5, 10 * i + 9,
			 ENTRY(i));
		assert_int_equal(count(text, line), 1);
	}
	free(text);
	done(&mt);
}

/* A cell for every slot, each with a title, and every opened element is closed. */
static void dump_svg(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, 0);
	char *text, *picture;

	(void)state;
	fill(&mt, 60);
	text = dumped(&mt, mt_dump);
	picture = dumped(&mt, mt_dump_svg);
	assert_int_equal(strncmp(picture, "<svg ", 5), 0);
	assert_string_equal(picture + strlen(picture) - 7, "</svg>\n");
	/* A line of text for each slot, except the tree's first and the root's. */
	assert_int_equal(count(picture, "<rect "), count(text, "\n") - 2);
	assert_int_equal(count(picture, "<rect "), count(picture, "</title></rect>"));
	for (unsigned long i = 0; i < 60; i++) {
		char entry[32];

		snprintf(entry, sizeof(entry), "%p<", ENTRY(i));
		assert_int_equal(count(picture, entry), 1);
	}
	free(text);
	free(picture);
	done(&mt);
}

/* One line, with what a program may read of a state. */
static void dump_state(void **state)
{
	DEFINE_MTREE(mt);
	MA_STATE(mas, &mt, 15, 15);
	struct capture captured;

	(void)state;
	fill(&mt, 100);
	capture_begin(&captured);
	assert_int_equal(mas_dump(&mas, STDERR_FILENO), 0);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, ": 15 ... 15, start, error 0, "));
	mas_walk(&mas);
	capture_begin(&captured);
	assert_int_equal(mas_dump(&mas, STDERR_FILENO), 0);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, ": 15 ... 19, active, error 0, "));
	mtree_lock(&mt);
	mas_set_range(&mas, 9, 5);
	assert_int_equal(mas_store_gfp(&mas, NULL, GFP_KERNEL), -EINVAL);
	mas_set_range(&mas, 7, 107);
	assert_int_equal(mas_preallocate(&mas, ENTRY(1), GFP_KERNEL), 0);
	capture_begin(&captured);
	assert_int_equal(mas_dump(&mas, STDERR_FILENO), 0);
	assert_int_equal(capture_end(&captured), 1);
	assert_null(strstr(captured.text, " 0 nodes preallocated"));
	mas_destroy(&mas);
	mtree_unlock(&mt);
	assert_int_equal(mas_dump(&mas, -1), -EBADF);
	done(&mt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flags_and_height), cmocka_unit_test(validate_tells_faults),
		cmocka_unit_test(validate_stops),   cmocka_unit_test(dump_text),
		cmocka_unit_test(dump_svg),	    cmocka_unit_test(dump_to_nowhere),
		cmocka_unit_test(dump_state),
	};

	provider_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
