/* SPDX-License-Identifier: MIT */
/*
 * A process to inspect. It does what each line on standard input says, and answers each with a
 * line.
 *
 *   create NAME       a cache of 64-byte objects; further lines use it. The name may have spaces
 *   merge NAME        the same, but it may share the cache of others
 *   alloc N           allocate N more objects
 *   bulk N            the same by one call
 *   free N            free the N oldest
 *   shrink            the cache
 *   many N            make N caches
 *   destroy           the last cache, with all its objects
 *   count N           add N times its number to each counter word, without an event
 *   block N           allocate a block of N bytes
 *   release           free all blocks
 *   fork              a child, which waits until its input ends
 *   leave             the first thread ends, and another one continues
 *   group NAME        a group, which is the current one from now on
 *   charge N          allocate N objects that are charged to it
 *   call              from now on another thread allocates and frees each ms
 *   overrun           write behind the newest object; mend: undo that
 *   close             all descriptors from 100 on, and give the numbers to a file of its own
 *   own               that file has not been written to
 *   json              print sheaf_stats_print()'s own view instead of an answer
 */
#include <pthread.h>
#include <sched.h>
#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/cache.h"
#include "cache/events.h"

#define ROOM (1 << 20)

static void *objects[ROOM];
static size_t first, next;
static struct kmem_cache *s;

static void *blocks[ROOM];
static size_t nr_blocks;

static void free_some(size_t n)
{
	while (n-- && first < next)
		kmem_cache_free(s, objects[first++]);
}

static void *call(void *unused)
{
	(void)unused;
	for (;;) {
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
		kmem_cache_shrink(s);
		usleep(1000);
	}
	return NULL;
}

static void start_calling(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, call, NULL))
		exit(1);
}

static FILE *own;

static void close_all(void)
{
	own = tmpfile();
	for (int i = 100; own && i < 200; i++)
		if (dup2(fileno(own), i) != i)
			exit(1);
}

static void check_own(void)
{
	if (!own || fseek(own, 0, SEEK_END) || ftell(own))
		exit(1);
}

static void count(uint64_t n)
{
	for (unsigned int word = OS_NR_SHOWN; word < NR_RCU_WORDS; word++)
		stat_add(&s->sheaf.slab, word, n * word);
}

static int callers;

/* The parent returns when the child has its own counters. */
static void make_child(void)
{
	int ready[2];
	char byte;

	if (pipe(ready))
		exit(1);
	if (fork() == 0) {
		close(ready[0]);
		if (callers)
			start_calling();
		close(ready[1]);
		while (read(STDIN_FILENO, &byte, 1) > 0)
			;
		_exit(0);
	}
	close(ready[1]);
	(void)!read(ready[0], &byte, 1);
	close(ready[0]);
}

static void leave(void);

static int do_line(const char *line)
{
	size_t n = strtoul(line + strcspn(line, " "), NULL, 10);

	if (!strncmp(line, "create ", 7))
		s = kmem_cache_create(line + 7, 64, NULL, SLAB_NO_MERGE);
	else if (!strncmp(line, "merge ", 6))
		s = kmem_cache_create(line + 6, 64, NULL, 0);
	else if (!strncmp(line, "alloc ", 6))
		while (n-- && next < ROOM)
			objects[next++] = kmem_cache_alloc(s, GFP_KERNEL);
	else if (!strncmp(line, "group ", 6))
		kmem_group_restore_current(kmem_group_get(kmem_group_create(line + 6, NULL, NULL)));
	else if (!strncmp(line, "charge ", 7))
		while (n-- && next < ROOM)
			objects[next++] = kmem_cache_alloc(s, GFP_KERNEL_ACCOUNT);
	else if (!strncmp(line, "bulk ", 5))
		next += (size_t)kmem_cache_alloc_bulk(s, GFP_KERNEL, n, &objects[next]);
	else if (!strncmp(line, "count ", 6))
		count(n);
	else if (!strcmp(line, "shrink"))
		(void)kmem_cache_shrink(s);
	else if (!strncmp(line, "free ", 5))
		free_some(n);
	else if (!strncmp(line, "many ", 5))
		while (n--)
			s = kmem_cache_create("many", 64, NULL, SLAB_NO_MERGE);
	else if (!strcmp(line, "destroy"))
		free_some(ROOM), kmem_cache_destroy(s);
	else if (!strncmp(line, "block ", 6))
		blocks[nr_blocks++] = kvmalloc(n, GFP_KERNEL);
	else if (!strcmp(line, "release"))
		while (nr_blocks)
			kvfree(blocks[--nr_blocks]);
	else if (!strncmp(line, "user ", 5))
		return setgid((gid_t)n) || setuid((uid_t)n) || puts("done") < 0 || fflush(stdout);
	else if (!strncmp(line, "chroot ", 7))
		return chroot(line + 7) || chdir("/") || puts("done") < 0 || fflush(stdout);
	else if (!strcmp(line, "fork"))
		make_child();
	else if (!strcmp(line, "call"))
		callers++, start_calling();
	else if (!strcmp(line, "overrun"))
		((char *)objects[next - 1])[64] = 1;
	else if (!strcmp(line, "mend"))
		((char *)objects[next - 1])[64] = (char)0xcc;
	else if (!strcmp(line, "close"))
		close_all();
	else if (!strcmp(line, "own"))
		check_own();
	else if (!strcmp(line, "leave"))
		leave();
	else if (!strcmp(line, "json"))
		(void)sheaf_stats_print(STDOUT_FILENO, SHEAF_STATS_JSON);
	else if (!strcmp(line, "prometheus"))
		(void)sheaf_stats_print(STDOUT_FILENO, SHEAF_STATS_PROMETHEUS);
	else
		return -1;
	return puts("done") < 0 || fflush(stdout);
}

static void *go_on(void *unused)
{
	char line[512];

	(void)unused;
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (do_line(line))
			exit(1);
	}
	exit(0);
}

static void leave(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, go_on, NULL))
		exit(1);
	puts("done");
	fflush(stdout);
	pthread_exit(NULL);
}

/* Run on one CPU: pops on another one would become visible only with its next push. */
static void stay(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)sched_getcpu(), &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

int main(void)
{
	stay();
	go_on(NULL);
}
