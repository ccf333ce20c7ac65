/* SPDX-License-Identifier: MIT */
/* See queue.h. */
#include "queue.h"

#include <stddef.h>

void queue_init(struct queue *queue, unsigned int writers)
{
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->changed, NULL);
	queue->first = queue->n = 0;
	queue->writers = writers;
}

void queue_put(struct queue *queue, void *item)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->n == QUEUE_ROOM)
		pthread_cond_wait(&queue->changed, &queue->lock);
	queue->items[(queue->first + queue->n++) % QUEUE_ROOM] = item;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

void *queue_get(struct queue *queue)
{
	void *item = NULL;

	pthread_mutex_lock(&queue->lock);
	while (!queue->n && queue->writers)
		pthread_cond_wait(&queue->changed, &queue->lock);
	if (queue->n) {
		item = queue->items[queue->first];
		queue->first = (queue->first + 1) % QUEUE_ROOM;
		queue->n--;
		pthread_cond_broadcast(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	return item;
}

void queue_leave(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->writers--;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}
