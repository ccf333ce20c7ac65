/* SPDX-License-Identifier: MIT */
/* Groups whose callbacks check that their data has not ended, and call the test. */
#ifndef SHEAF_TESTS_GROUP_DATA_H
#define SHEAF_TESTS_GROUP_DATA_H

#include <sheaf/group.h>
#include <sheaf/kmalloc.h>

#include "kit/unit.h"

enum {
	SIZE = 1000
};

struct data {
	struct kmem_group *g;
	uint32_t ended, inside, called;
	void (*then)(struct data *data);
};

static inline void end(void *p)
{
	struct data *data = p;

	assert_int_equal(__atomic_load_n(&data->inside, __ATOMIC_ACQUIRE), 0);
	__atomic_fetch_add(&data->ended, 1, __ATOMIC_ACQ_REL);
}

static inline void event(struct kmem_group *g, enum kmem_group_event event, uint64_t bytes, void *p)
{
	struct data *data = p;

	(void)event, (void)bytes;
	assert_ptr_equal(g, data->g);
	assert_int_equal(data->ended, 0);
	__atomic_fetch_add(&data->called, 1, __ATOMIC_ACQ_REL);
	__atomic_store_n(&data->inside, 1, __ATOMIC_RELEASE);
	if (data->then)
		data->then(data);
	assert_int_equal(__atomic_load_n(&data->ended, __ATOMIC_ACQUIRE), 0);
	__atomic_store_n(&data->inside, 0, __ATOMIC_RELEASE);
}

static inline struct kmem_group_args args_of(struct data *data)
{
	return (struct kmem_group_args){.high = 1, .event = event, .data = data, .end = end};
}

static inline struct kmem_group *group_with(struct data *data)
{
	struct kmem_group_args args = args_of(data);

	data->g = kmem_group_create("data", NULL, &args);
	assert_non_null(data->g);
	return data->g;
}

static inline int set(struct data *data, struct kmem_group *g)
{
	struct kmem_group_args args = args_of(data);

	data->g = g;
	return kmem_group_set_limits(g, &args);
}

/* Pass the mark: the callback runs. */
static inline void pass_the_mark(struct kmem_group *g)
{
	void *block = kmalloc_charged(SIZE, GFP_KERNEL, g);

	assert_non_null(block);
	kfree(block);
}

static inline void *passes_the_mark(void *g)
{
	pass_the_mark(g);
	return NULL;
}

static struct data first, second, third;

static inline int set_up(void **state)
{
	(void)state;
	first = second = third = (struct data){.ended = 0};
	return 0;
}

#endif
