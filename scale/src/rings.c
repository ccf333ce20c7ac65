/* SPDX-License-Identifier: MIT */
/* Workloads whose objects are freed by another task; see workloads.h. This file is instrumented. */
#include <stdint.h>
#include <stdlib.h>

#include "scale/src/workloads.h"

#define APART 128 /* bytes: two lines, which some processors fetch together */
#define RING  1024
#define GROUP 32

/* --- pairs ---------------------------------------------------------------------------------- */

/* One end writes `tail` and `slots`, the other one `head`; as bench/common/ring.h. */
struct ring {
	_Alignas(APART) size_t tail;
	size_t head_seen;
	_Alignas(APART) size_t head;
	size_t tail_seen;
	_Alignas(APART) void *slots[RING];
};

static struct ring *rings;

bool rings_prepare(void)
{
	rings = aligned_alloc(APART, running.tasks * sizeof(*rings));
	for (unsigned int i = 0; rings && i < running.tasks; i++)
		rings[i] = (struct ring){0};
	return rings;
}

/* False if the ring has no room for a group. */
static bool produce(struct ring *ring)
{
	size_t tail = ring->tail, most = running.workload->batch - GROUP;

	if (tail - ring->head_seen > most) {
		ring->head_seen = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
		if (tail - ring->head_seen > most)
			return false;
	}
	for (size_t i = 0; i < GROUP; i++) {
		uint64_t *object = work_alloc(running.allocator, running.context);

		*object = tail + i;
		ring->slots[(tail + i) % RING] = object;
		work_for(running.workload->work);
	}
	__atomic_store_n(&ring->tail, tail + GROUP, __ATOMIC_RELEASE);
	return true;
}

/* False if the ring is empty. */
static bool consume(struct ring *ring)
{
	size_t head = ring->head;

	if (head == ring->tail_seen) {
		ring->tail_seen = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
		if (head == ring->tail_seen)
			return false;
	}
	for (size_t i = 0; i < GROUP; i++) {
		uint64_t *object = ring->slots[(head + i) % RING];

		if (*object != head + i)
			abort(); /* another task has it, too */
		work_for(running.workload->work);
		if (running.workload->retires)
			work_retire(running.allocator, running.context, object);
		else
			work_free(running.allocator, running.context, object);
	}
	work_did(GROUP);
	__atomic_store_n(&ring->head, head + GROUP, __ATOMIC_RELEASE);
	return true;
}

void run_pair(unsigned int task)
{
	struct ring *ring = &rings[task / 2];
	while (work_goes_on()) {
		if (task % 2 == 0 ? !produce(ring) : !consume(ring))
			work_wait();
	}
}

/* --- boxes: from each task to every other one, or to the next one only ---------------------- */

struct box {
	uint64_t full;
	void *objects[]; /* a batch */
};

static char *boxes; /* by sender, then by receiver */
static size_t box_size, boxes_each;

bool mail_prepare(void)
{
	size_t n;

	boxes_each = running.workload->onward || running.workload->in_pairs ? 1 : running.tasks;
	n = running.tasks * boxes_each;
	box_size = sizeof(struct box) + running.workload->batch * sizeof(void *);
	box_size = (box_size + APART - 1) / APART * APART;
	boxes = aligned_alloc(APART, n * box_size);
	for (size_t i = 0; boxes && i < n; i++)
		((struct box *)(boxes + i * box_size))->full = 0;
	return boxes;
}

static struct box *box_of(unsigned int from, unsigned int to)
{
	return (struct box *)(boxes + (from * boxes_each + to % boxes_each) * box_size);
}

/* False if the last batch is still there. */
static bool send(struct box *box, unsigned int from)
{
	if (__atomic_load_n(&box->full, __ATOMIC_ACQUIRE))
		return false;
	for (size_t i = 0; i < running.workload->batch; i++) {
		uint64_t *object = work_alloc(running.allocator, running.context);

		*object = from;
		box->objects[i] = object;
	}
	__atomic_store_n(&box->full, 1, __ATOMIC_RELEASE);
	return true;
}

/* False if there is none. */
static bool receive(struct box *box, unsigned int from)
{
	if (!__atomic_load_n(&box->full, __ATOMIC_ACQUIRE))
		return false;
	for (size_t i = 0; i < running.workload->batch; i++) {
		uint64_t *object = box->objects[i];

		if (*object != from)
			abort(); /* another task has it, too */
		work_free(running.allocator, running.context, object);
		work_did(1);
	}
	__atomic_store_n(&box->full, 0, __ATOMIC_RELEASE);
	return true;
}

void run_mail(unsigned int task)
{
	unsigned int n = running.tasks;

	for (unsigned int round = 1; work_goes_on(); round++) {
		unsigned int apart = running.workload->onward ? 1 : round % n;
		unsigned int to = (task + apart) % n, from = (task + n - apart) % n;
		bool sent = send(box_of(task, to), task);

		if (!receive(box_of(from, task), from) && !sent)
			work_wait();
	}
}

/* A parent waits for its child. */
void run_forks(unsigned int task)
{
	struct box *box = box_of(task / 2 * 2, task / 2 * 2 + 1);

	while (work_goes_on()) {
		if (task % 2 == 0 ? !send(box, task) : !receive(box, task - 1))
			work_wait();
	}
}
