/* SPDX-License-Identifier: MIT */
/* The price of memory: traces whose costs were computed by hand, and random ones that keep the
 * invariants. Two sockets of two groups of two CPUs. */
#include "scale/src/lines.h"

#include "kit/random.h"
#include "kit/unit.h"
#include "scale/src/homes.h"

enum {
	NR_CPUS = 8,
	LINE = 1000,
	OTHER = 1001,
	RANDOM_STEPS = 200000,
};

static struct machine machine;
static struct lines *lines;
static uint64_t now;

static int begin(void **state)
{
	(void)state;
	machine = (struct machine){
		.nr_cpus = NR_CPUS, .nr_nodes = 2, .nr_sockets = 2, .nr_groups = 4, .threads = 1};
	machine.cache_lines = 64; /* eight sets of eight */
	for (uint16_t cpu = 0; cpu < NR_CPUS; cpu++) {
		machine.node_of[cpu] = machine.socket_of[cpu] = cpu / 4;
		machine.group_of[cpu] = cpu / 2;
		machine.cpu_of_group[cpu / 2] = cpu;
	}
	machine.memory_node[1] = 1;
	for (unsigned int cost = 0; cost < MACHINE_NR_COSTS; cost++)
		machine.cost[cost] = 1000 * (cost + 1);
	lines = lines_new(&machine);
	now = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	lines_check(lines);
	lines_delete(lines);
	return 0;
}

/* The access is a miss that comes from there, and is paid in full. */
static void misses(unsigned int cpu, uintptr_t line, bool write, enum machine_cost from,
		   enum machine_cost paid)
{
	struct lines_move move;

	assert_false(lines_has(lines, cpu, line, write));
	move = lines_get(lines, cpu, line, write, now, 0);
	assert_int_equal(move.from, from);
	assert_int_equal(move.done, now + machine.cost[paid]);
	assert_true(lines_has(lines, cpu, line, write));
	now = move.done;
	lines_check(lines);
}

static void reads(unsigned int cpu, enum machine_cost from)
{
	misses(cpu, LINE, false, from, from);
}

static void writes(unsigned int cpu, enum machine_cost from)
{
	misses(cpu, LINE, true, from, from);
}

static void first_touch_is_memory(void **state)
{
	(void)state;
	reads(0, MACHINE_near);
	misses(4, OTHER, false, MACHINE_far, MACHINE_far);
	/* No other CPU has it: it may be written immediately. */
	assert_true(lines_has(lines, 0, LINE, true));
}

static void a_written_line_moves_by_distance(void **state)
{
	(void)state;
	writes(0, MACHINE_near);
	writes(1, MACHINE_same_llc);
	writes(2, MACHINE_same_socket);
	writes(4, MACHINE_other_socket);
	assert_false(lines_has(lines, 0, LINE, false));
	assert_false(lines_has(lines, 2, LINE, false));
	assert_true(lines_has(lines, 4, LINE, true));
}

static void readers_share(void **state)
{
	(void)state;
	writes(0, MACHINE_near);
	reads(4, MACHINE_other_socket);
	assert_true(lines_has(lines, 0, LINE, false));
	assert_false(lines_has(lines, 0, LINE, true));
	/* From the nearest one that has it. */
	reads(5, MACHINE_same_llc);
	reads(2, MACHINE_same_socket);
	/* A write takes it from the farthest one. */
	writes(0, MACHINE_other_socket);
	for (unsigned int cpu = 1; cpu < NR_CPUS; cpu++)
		assert_false(lines_has(lines, cpu, LINE, false));
}

static void the_only_reader_asks_its_cache(void **state)
{
	(void)state;
	writes(0, MACHINE_near);
	reads(1, MACHINE_same_llc);
	writes(1, MACHINE_same_llc);
	/* Shared, and then left alone: CPU 0 loses it by capacity. */
	reads(0, MACHINE_same_llc);
	for (uintptr_t i = 1; i <= LINES_WAYS; i++)
		misses(0, LINE + i * 8, false, MACHINE_near, MACHINE_near);
	assert_false(lines_has(lines, 0, LINE, false));
	misses(1, LINE, true, MACHINE_own, MACHINE_l3);
}

static void private_caches_are_finite(void **state)
{
	(void)state;
	writes(0, MACHINE_near);
	for (uintptr_t i = 1; i < LINES_WAYS; i++)
		misses(0, LINE + i * 8, false, MACHINE_near, MACHINE_near);
	/* Used again, it is not the oldest: the next one goes in its place. */
	assert_true(lines_has(lines, 0, LINE, true));
	misses(0, LINE + LINES_WAYS * 8, false, MACHINE_near, MACHINE_near);
	assert_true(lines_has(lines, 0, LINE, true));
	misses(0, LINE + 8, false, MACHINE_l3, MACHINE_l3);
	/* What left one CPU's cache is in its group's; the rest is still there. */
	misses(1, LINE + 16, false, MACHINE_l3, MACHINE_l3);
	misses(2, LINE + 24, false, MACHINE_same_socket, MACHINE_same_socket);
	misses(7, LINE + 32, false, MACHINE_other_socket, MACHINE_other_socket);
}

static void who_wants_a_moving_line_waits(void **state)
{
	uint64_t arrived, all;

	(void)state;
	writes(0, MACHINE_near);
	/* Both at the same moment: the second one waits until the first one has it. */
	arrived = lines_get(lines, 1, LINE, true, now, 0).done;
	all = lines_get(lines, 4, LINE, true, now, 0).done;
	assert_int_equal(arrived, now + machine.cost[MACHINE_same_llc]);
	assert_int_equal(all, arrived + machine.cost[MACHINE_other_socket]);
}

static void copies_do_not_wait(void **state)
{
	uint64_t shared;

	(void)state;
	writes(0, MACHINE_near);
	reads(1, MACHINE_same_llc);
	shared = now;
	assert_int_equal(lines_get(lines, 2, LINE, false, shared, 0).done,
			 shared + machine.cost[MACHINE_same_socket]);
	assert_int_equal(lines_get(lines, 4, LINE, false, shared, 0).done,
			 shared + machine.cost[MACHINE_other_socket]);
}

static void second_threads_are_near(void **state)
{
	(void)state;
	lines_delete(lines);
	machine.threads = 2;
	for (uint16_t cpu = 0; cpu < NR_CPUS; cpu++) {
		machine.socket_of[cpu] = cpu % 4 / 2;
		machine.group_of[cpu] = cpu % 4;
	}
	lines = lines_new(&machine);
	writes(0, MACHINE_near);
	writes(4, MACHINE_same_core);
	writes(1, MACHINE_same_socket);
	writes(6, MACHINE_other_socket);
	/* The threads of a core share its cache: what one has, the other one has. */
	assert_true(lines_has(lines, 6, LINE, true));
	reads(2, MACHINE_same_core);
	assert_true(lines_has(lines, 2, LINE, true));
	writes(6, MACHINE_same_core);
	assert_int_equal(lines_get(lines, 1, OTHER, false, now, 0).from, MACHINE_near);
	assert_true(lines_has(lines, 5, OTHER, true));
	/* Both threads' copies go when another core writes. */
	writes(3, MACHINE_same_socket);
	assert_false(lines_has(lines, 2, LINE, false));
	assert_false(lines_has(lines, 6, LINE, false));
}

/* At each moment one CPU may write, or any may read; and the line just requested is there. */
static void random_accesses_keep_invariants(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (unsigned int i = 0; i < RANDOM_STEPS; i++) {
		unsigned int cpu = random_below(&seed, NR_CPUS);
		uintptr_t line = 1 + random_below(&seed, 300);
		bool write = random_below(&seed, 3) == 0;
		unsigned int writers = 0, readers = 0;

		if (!lines_has(lines, cpu, line, write))
			now = lines_get(lines, cpu, line, write, now, 0).done;
		assert_true(lines_has(lines, cpu, line, write));
		for (unsigned int other = 0; other < NR_CPUS; other++) {
			writers += lines_has(lines, other, line, true);
			readers += lines_has(lines, other, line, false);
		}
		assert_true(writers == 0 || (writers == 1 && readers == 1));
		if (i % 1000 == 0)
			lines_check(lines);
	}
}

static void pages_belong_to_who_touches_them_first(void **state)
{
	static struct homes *homes; /* they stay until the process ends */
	bool first;

	(void)state;
	homes = homes_new();
	for (uintptr_t page = 1; page <= 10000; page++)
		assert_int_equal(homes_touch(homes, page, page % 3, &first), page % 3);
	assert_true(first);
	assert_int_equal(homes_number(homes, 7), 7);
	assert_int_equal(homes_number(homes, 20000), 10001);
	assert_int_equal(homes_touch(homes, 7, 0, &first), 7 % 3);
	assert_false(first);
	assert_int_equal(homes_discard(homes, 9998, 10), 3);
	assert_int_equal(homes_discard(homes, 5, 10), 10);
	assert_int_equal(homes_discard(homes, 5, 10), 0);
	assert_int_equal(homes_touch(homes, 7, 2, &first), 2);
	assert_true(first);
	/* Its lines are new ones, which no cache has. */
	assert_true(homes_number(homes, 7) > 10001);
	assert_int_equal(homes_number(homes, 9997), 9997);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(first_touch_is_memory),
		TEST(a_written_line_moves_by_distance),
		TEST(readers_share),
		TEST(the_only_reader_asks_its_cache),
		TEST(private_caches_are_finite),
		TEST(who_wants_a_moving_line_waits),
		TEST(copies_do_not_wait),
		TEST(second_threads_are_near),
		TEST(random_accesses_keep_invariants),
		TEST(pages_belong_to_who_touches_them_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
