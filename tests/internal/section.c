/* SPDX-License-Identifier: MIT */
/*
 * Sections of the running backend against a model: two sheaves in a slot, one or two outside it.
 *
 * An aborted section fails and has stored nothing: the test tries it again. A signal aborts a
 * section: so that each of a section's tries is the one that commits, sooner or later, slots are
 * inaccessible until the handler has seen some faults.
 */
#include "os/section.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "internal/kit/pages.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/machine.h"

enum {
	CAPACITY = 8,
	SHEAVES = 3,
	ROUNDS = 300000,
	MOST_FAULTS = 6, /* more than a section has tries */
	PATIENCE = 100000
};

#define HOME	UINT64_C(0x10000000)
#define NOWHERE ((uintptr_t)1 << 63) /* as in a closed slot */

struct model {
	void *objects[CAPACITY];
	unsigned int size, capacity;
};

static struct section_slots at;
static struct slot *slot;
static struct sheaf *sheaves[SHEAVES];
static struct model models[SHEAVES];
static int in_main, in_spare; /* -1: no spare */
static int in_hand[SHEAVES];
static unsigned int nr_in_hand;
static uintptr_t next_object;
static volatile sig_atomic_t faults_left;

/* All slots, but not the handle, in whose row the sheaves are. */
static void protect_slots(int protection)
{
	char *first = (char *)slot_of_row(at.handle, 0);

	if (mprotect(first, (size_t)os.nr_rows << ROW_SHIFT, protection))
		abort();
}

static void on_fault(int number)
{
	(void)number;
	if (--faults_left <= 0)
		protect_slots(PROT_READ | PROT_WRITE);
}

/* Called by the tests themselves: cmocka handles SIGSEGV while a test runs. */
static struct sigaction before_faults;

static void catch_faults(void)
{
	const struct sigaction action = {.sa_handler = on_fault};

	sigaction(SIGSEGV, &action, &before_faults);
}

static void catch_no_faults(void)
{
	sigaction(SIGSEGV, &before_faults, NULL);
}

/* This many of the next accesses to a slot fail. */
static void begin_faults(unsigned int n)
{
	faults_left = (sig_atomic_t)n;
	protect_slots(PROT_NONE);
}

static void end_faults(void)
{
	if (faults_left > 0)
		protect_slots(PROT_READ | PROT_WRITE);
	faults_left = 0;
}

static void *fresh(void)
{
	next_object = (next_object + 16) & 0xffffff;
	return (void *)(HOME + next_object);
}

static void reset(void)
{
	for (int i = 0; i < SHEAVES; i++) {
		unsigned int capacity = CAPACITY - (unsigned int)i * 2;

		memset(sheaves[i], 0, SHEAF_HEADER + CAPACITY * sizeof(void *));
		memset(&models[i], 0, sizeof(models[i]));
		sheaves[i]->capacity = models[i].capacity = capacity;
	}
	in_main = 0, in_spare = 1;
	in_hand[0] = 2, nr_in_hand = 1;
	slot->main = sheaves[0];
	slot->pair = (uintptr_t)sheaves[0] ^ (uintptr_t)sheaves[1];
	slot->home = HOME;
	slot->home_size = 0x1000000;
	at.stop = 0;
}

static void compare(void)
{
	uintptr_t spare = in_spare < 0 ? 0 : (uintptr_t)sheaves[in_spare];

	assert_ptr_equal(slot->main, sheaves[in_main]);
	assert_int_equal(slot->pair ^ (uintptr_t)slot->main, spare);
	assert_int_equal(slot->lock, 0);
	for (int i = 0; i < SHEAVES; i++) {
		const struct model *model = &models[i];

		assert_int_equal(sheaf_size(sheaves[i]), model->size);
		assert_int_equal(sheaves[i]->capacity, model->capacity);
		assert_memory_equal(sheaves[i]->objects, model->objects,
				    model->size * sizeof(void *));
	}
}

static void try_pop(void)
{
	struct model *m = &models[in_main];
	void *object = NULL;

	for (int tries = 0; !object && tries < (m->size ? PATIENCE : 1); tries++)
		object = section_pop(&at);
	if (!m->size) {
		assert_null(object);
		return;
	}
	assert_ptr_equal(object, m->objects[--m->size]);
}

static void try_push(bool foreign)
{
	struct model *m = &models[in_main];
	void *object = fresh();
	bool room = m->size < m->capacity && !foreign, done = false;

	if (foreign)
		object = (char *)object + (next_object & 16 ? 0x1000000 : -HOME);
	for (int tries = 0; !done && tries < (room ? PATIENCE : 1); tries++)
		done = section_push(&at, object);
	assert_int_equal(done, room);
	if (done)
		m->objects[m->size++] = object;
}

static void try_pop_bulk(unsigned int n)
{
	struct model *m = &models[in_main];
	unsigned int expected = n < m->size ? n : m->size, got = 0;
	void *objects[CAPACITY + 1];

	objects[n] = &at;
	for (int tries = 0; !got && tries < (expected ? PATIENCE : 1); tries++)
		got = section_pop_bulk(&at, objects, n);
	assert_int_equal(got, expected);
	m->size -= got;
	for (unsigned int i = 0; i < got; i++)
		assert_ptr_equal(objects[i], m->objects[m->size + i]);
	assert_ptr_equal(objects[n], &at);
}

static void try_push_bulk(unsigned int n)
{
	struct model *m = &models[in_main];
	unsigned int room = m->capacity - m->size, expected = n < room ? n : room, got = 0;
	void *objects[CAPACITY];

	for (unsigned int i = 0; i < n; i++)
		objects[i] = fresh();
	for (int tries = 0; !got && tries < (expected ? PATIENCE : 1); tries++)
		got = section_push_bulk(&at, objects, n);
	assert_int_equal(got, expected);
	for (unsigned int i = 0; i < got; i++)
		m->objects[m->size++] = objects[i];
}

static void try_swap(bool empty)
{
	struct model *m = &models[in_main], *p = in_spare < 0 ? NULL : &models[in_spare];
	bool expected =
		p && !at.stop &&
		(empty ? !m->size && p->size : m->size == m->capacity && p->size < p->capacity);
	bool done = false;

	for (int tries = 0; !done && tries < (expected ? PATIENCE : 1); tries++)
		done = empty ? section_swap_empty(&at) : section_swap_full(&at);
	assert_int_equal(done, expected);
	if (done) {
		int old = in_main;

		in_main = in_spare;
		in_spare = old;
	}
}

static void try_replace(uint64_t *seed)
{
	int chosen = (int)random_below(seed, nr_in_hand + 1) - 1;
	int given = chosen < 0 ? -1 : in_hand[chosen];
	struct sheaf *old = (struct sheaf *)&at;
	bool done = false;

	for (int tries = 0; !done && tries < (at.stop ? 1 : PATIENCE); tries++)
		done = section_replace_spare(&at, given < 0 ? NULL : sheaves[given], &old);
	assert_int_equal(done, !at.stop);
	if (!done) {
		/* A thread that reads it would take a sheaf that is still in the slot. */
		assert_ptr_equal(old, &at);
		return;
	}
	assert_ptr_equal(old, in_spare < 0 ? NULL : sheaves[in_spare]);
	if (chosen >= 0)
		in_hand[chosen] = in_hand[--nr_in_hand];
	if (in_spare >= 0)
		in_hand[nr_in_hand++] = in_spare;
	in_spare = given;
}

static void random_operations(uint64_t seed, unsigned int fault_in)
{
	reset();
	errno = 77;
	for (unsigned int round = 0; round < ROUNDS / fault_in; round++) {
		/* Waves, so that sheaves become full and empty. */
		bool filling = round / 64 % 2;

		if (fault_in > 1 && random_below(&seed, fault_in) == 0)
			begin_faults(random_below(&seed, MOST_FAULTS) + 1);
		switch (random_below(&seed, 8)) {
		case 0:
			try_swap(random_below(&seed, 2));
			break;
		case 1:
			try_replace(&seed);
			break;
		case 2:
			at.stop = random_below(&seed, 4) == 0;
			break;
		case 3:
			try_push(true);
			break;
		case 4:
			if (filling)
				try_push_bulk(random_below(&seed, CAPACITY) + 1);
			else
				try_pop_bulk(random_below(&seed, CAPACITY) + 1);
			break;
		default:
			if (random_below(&seed, 4) == 0 ? !filling : filling)
				try_push(false);
			else
				try_pop();
		}
		end_faults();
		compare();
	}
	assert_int_equal(errno, 77);
}

static void sections_do_what_the_model_does(void **state)
{
	(void)state;
	random_operations(4711, 1);
}

static void aborted_sections_do_it_too(void **state)
{
	(void)state;
	catch_faults();
	random_operations(4712, 8);
	catch_no_faults();
}

static void bootstrap_is_empty_and_full(void **state)
{
	static struct sheaf bootstrap;
	void *object = (void *)(HOME + 16);
	struct sheaf *old;

	(void)state;
	reset();
	slot->main = &bootstrap;
	slot->pair = (uintptr_t)&bootstrap;
	assert_null(section_pop(&at));
	assert_false(section_push(&at, object));
	assert_int_equal(section_pop_bulk(&at, &object, 1), 0);
	assert_int_equal(section_push_bulk(&at, &object, 1), 0);
	assert_false(section_swap_empty(&at));
	assert_false(section_swap_full(&at));
	assert_int_equal(bootstrap.size, 0);
	while (!section_replace_spare(&at, sheaves[0], &old))
		;
	assert_null(old);
	while (!section_swap_full(&at))
		;
	assert_ptr_equal(slot->main, sheaves[0]);
}

static void begin_with(struct sheaf *sheaf, uintptr_t object)
{
	sheaf->objects[0] = (void *)object;
	sheaf->size = 1;
}

/* Its thread may have moved to another node since it began the sheaf. */
static void only_home_sheaves_become_rcu_free(void **state)
{
	static struct sheaf bootstrap;
	struct sheaf *old = (struct sheaf *)&at;

	(void)state;
	reset();
	slot->rcu_free = &bootstrap;
	begin_with(sheaves[2], HOME - 16);
	for (int i = 0; i < 100; i++)
		assert_false(section_replace_rcu(&at, sheaves[2], &old));
	begin_with(sheaves[2], HOME + slot->home_size);
	for (int i = 0; i < 100; i++)
		assert_false(section_replace_rcu(&at, sheaves[2], &old));
	assert_ptr_equal(old, &at);
	assert_ptr_equal(slot->rcu_free, &bootstrap);
	begin_with(sheaves[2], HOME);
	while (!section_replace_rcu(&at, sheaves[2], &old))
		;
	assert_ptr_equal(old, &bootstrap);
}

/* A drain does not look at it: see src/percpu/rows.h. */
static void closed_slot_takes_no_sheaf(void **state)
{
	struct sheaf *old = (struct sheaf *)&at;

	(void)state;
	/* SECTION-S5 */
	reset();
	begin_with(sheaves[0], HOME);
	begin_with(sheaves[2], HOME + 16);
	slot->rcu_free = sheaves[1];
	slot->pair = (uintptr_t)slot->main;
	slot->home = NOWHERE;
	slot->home_size = 0;
	assert_false(section_replace_spare(&at, sheaves[2], &old));
	assert_false(section_replace_spare(&at, NULL, &old));
	assert_false(section_put_spare(&at, sheaves[2]));
	assert_false(section_replace_rcu(&at, sheaves[2], &old));
	assert_ptr_equal(old, &at);
	assert_int_equal(slot->pair, (uintptr_t)sheaves[0]);
	assert_ptr_equal(slot->rcu_free, sheaves[1]);
	assert_int_equal(slot->lock, 0);
	slot->home = HOME;
	slot->home_size = 0x1000000;
	while (!section_put_spare(&at, sheaves[2]))
		;
	while (!section_replace_rcu(&at, sheaves[0], &old))
		;
	assert_ptr_equal(old, sheaves[1]);
}

/* Accesses to the slot fail this often; then the section commits, in this call or a later one. */
#define AFTER_FAULTS(n, section)                                                                   \
	do {                                                                                       \
		begin_faults(n);                                                                   \
		while (!(section))                                                                 \
			;                                                                          \
		end_faults();                                                                      \
	} while (0)

static void each_try_may_commit(void **state)
{
	const unsigned int kind = 3;
	uintptr_t *cell = &slot->cells[slot_remote_cell(kind)];

	(void)state;
	/* SECTION-S2 */
	catch_faults();
	for (unsigned int n = 1; n <= MOST_FAULTS; n++) {
		struct sheaf *old = NULL;
		uint64_t word = 0;

		reset();
		slot->rcu_free = sheaves[0];
		*cell = (uintptr_t)sheaves[1];
		slot->cells[0] = 5 << SECTION_STOCK_BITS | 100;
		begin_with(sheaves[2], HOME);
		AFTER_FAULTS(n, section_replace_rcu(&at, sheaves[2], &old));
		assert_ptr_equal(old, sheaves[0]);
		AFTER_FAULTS(n, section_push_rcu(&at, (void *)(HOME + 16)));
		assert_int_equal(sheaves[2]->size, 2);
		sheaves[0]->filled_by = kind + 1;
		AFTER_FAULTS(n, section_replace_remote(&at, kind, sheaves[0], &old));
		assert_ptr_equal(old, sheaves[1]);
		AFTER_FAULTS(n, section_push_remote(at.handle, kind, (void *)HOME));
		assert_int_equal(sheaves[0]->size, 1);
		AFTER_FAULTS(n, section_stock(&at, 0, 5 << SECTION_STOCK_BITS, 7));
		AFTER_FAULTS(n, section_stock_swap(&at, 0, 77, &word));
		assert_int_equal(word, 5 << SECTION_STOCK_BITS | 107);
		assert_int_equal(slot->cells[0], 77);
		slot->pair = (uintptr_t)slot->main;
		AFTER_FAULTS(n, section_put_spare(&at, sheaves[1]));
		assert_int_equal(slot->pair ^ (uintptr_t)slot->main, (uintptr_t)sheaves[1]);
		*cell = 0;
	}
	catch_no_faults();
}

/* Each of the two stop words stops its own sections. */
static void stops_concern_what_they_say(void **state)
{
	struct sheaf *old = (struct sheaf *)&at;

	(void)state;
	reset();
	begin_with(sheaves[0], HOME);
	slot->rcu_free = sheaves[2];
	at.rcu_stop = 1;
	assert_false(section_replace_rcu(&at, sheaves[0], &old));
	assert_ptr_equal(old, &at);
	while (!section_replace_spare(&at, NULL, &old))
		;
	assert_ptr_equal(old, sheaves[1]);
	at.rcu_stop = 0;
	at.stop = 1;
	assert_false(section_replace_spare(&at, sheaves[1], &old));
	assert_false(section_put_spare(&at, sheaves[1]));
	while (!section_replace_rcu(&at, sheaves[0], &old))
		;
	assert_ptr_equal(old, sheaves[2]);
}

static void *open_slot(void *unused)
{
	os_store_relaxed(&slot->home, HOME);
	os_store_release(&slot->home_size, 0x1000000);
	return unused;
}

/* Objects are pushed once the slot is open; only the opening orders the two threads. */
static void opened_beside_pushes(void **state)
{
	(void)state;
	/* ROWS-W1 */
	for (unsigned int n = 0; n < 2; n++) {
		void *object = fresh();
		pthread_t thread;

		reset();
		slot->home = NOWHERE;
		slot->home_size = 0;
		assert_false(section_push(&at, object));
		assert_int_equal(section_push_bulk(&at, &object, 1), 0);
		pthread_create(&thread, NULL, open_slot, NULL);
		while (n ? !section_push_bulk(&at, &object, 1) : !section_push(&at, object))
			sched_yield();
		pthread_join(thread, NULL);
		assert_int_equal(sheaf_size(sheaves[0]), 1);
		assert_ptr_equal(sheaves[0]->objects[0], object);
	}
}

static int setup(void **state)
{
	char *rows;

	(void)state;
	os_init();
	/* These rows have no counters. */
	os.counting = 0;
	rows = map_one_row();
	if (!rows)
		return -1;
	at.handle = rows;
	slot = slot_of_row(rows, 0);
	for (int i = 0; i < SHEAVES; i++)
		sheaves[i] = (struct sheaf *)(rows + 4096 + i * 1024);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sections_do_what_the_model_does),
		cmocka_unit_test(aborted_sections_do_it_too),
		cmocka_unit_test(bootstrap_is_empty_and_full),
		cmocka_unit_test(only_home_sheaves_become_rcu_free),
		cmocka_unit_test(closed_slot_takes_no_sheaf),
		cmocka_unit_test(each_try_may_commit),
		cmocka_unit_test(stops_concern_what_they_say),
		cmocka_unit_test(opened_beside_pushes),
	};

	return cmocka_run_group_tests_name("section", tests, setup, NULL);
}
