/* SPDX-License-Identifier: MIT */
/* A bounded queue of pointers between threads. Putting waits while it is full, getting while it is
 * empty. */
#ifndef EXAMPLES_QUEUE_H
#define EXAMPLES_QUEUE_H

#include <pthread.h>

#define QUEUE_ROOM 64

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	void *items[QUEUE_ROOM];
	unsigned int first, n;
	unsigned int writers; /* that may still put items */
};

void queue_init(struct queue *queue, unsigned int writers);
void queue_put(struct queue *queue, void *item);
/* The oldest item; NULL when it is empty and every writer has left. */
void *queue_get(struct queue *queue);
void queue_leave(struct queue *queue);

#endif
