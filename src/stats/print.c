/* SPDX-License-Identifier: MIT */
/*
 * Printing: the public call; SHEAF_OPTIONS=stats, stats=json and leaks at exit. Nothing is torn
 * down there, because other threads may still run.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cache/list.h"
#include "debug/slab_debug.h"
#include "os/file.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "stats/stats.h"

#define TRIES 1000

SHEAF_PUBLIC int sheaf_stats_print(int fd, enum sheaf_stats_format format)
{
	OS_KEEP_ERRNO;
	int error;
	struct stats *stats;
	struct out out;

	if (format != SHEAF_STATS_TEXT && format != SHEAF_STATS_JSON &&
	    format != SHEAF_STATS_PROMETHEUS)
		return -EINVAL;
	stats = caches_ready() ? stats_read() : NULL;
	if (!stats)
		return -ENOMEM;
	if (!out_begin(&out, fd)) {
		stats_release(stats);
		return -ENOMEM;
	}
	if (format == SHEAF_STATS_TEXT)
		stats_print_text(&out, stats);
	else if (format == SHEAF_STATS_JSON)
		stats_print_json(&out, stats);
	else
		stats_print_prometheus(&out, stats);
	error = out_end(&out);
	stats_release(stats);
	return error;
}

/* If exit() was called in a signal handler, it may have interrupted the thread that holds the lock,
 * which is then never released. */
static bool lock_can_be_had(void)
{
	for (int tries = 0; tries < TRIES; tries++) {
		if (os_trylock(&caches.lock)) {
			os_unlock(&caches.lock);
			return true;
		}
		os_sleep_briefly();
	}
	return false;
}

static void report_leak(struct kmem_cache *s)
{
	struct kmem_cache_stats stats;

	stats_read_cache(s, &stats);
	if (cache_knows_users(s))
		debug_report_leaks(&s->sheaf.slab, "at exit");
	if (stats.objects_in_use && !debug_stores_users(&s->sheaf.slab))
		os_report("LEAK %s: %llu object%s of %llu bytes in use at exit; slab_debug=U "
			  "shows who allocated them",
			  stats.name, (unsigned long long)stats.objects_in_use,
			  os_plural(stats.objects_in_use), (unsigned long long)stats.object_size);
}

void leaks_at_exit(void)
{
	if (!lock_can_be_had())
		return;
	for (struct kmem_cache *s = list_next(NULL); s; s = list_next(s)) {
		report_leak(s);
		os_report_kept();
	}
}

static struct os_descriptor destination = {.file = -1};

void stats_begin(void)
{
	unsigned long long device, inode;
	int file = (int)os_options.stats_fd;

	/* Known to who started the program: it may have closed the descriptor before its first use
	 * of the library. */
	if (sscanf(os_options.stats_file, "%llu:%llu", &device, &inode) == 2)
		destination = (struct os_descriptor){file, (dev_t)device, (ino_t)inode};
	else
		os_descriptor_remember(&destination, file);
}

/* Programs exchange their standard output and error on purpose. */
static int file_at_exit(void)
{
	int file = (int)os_options.stats_fd;

	if (file <= STDERR_FILENO || os_descriptor_is_ours(&destination))
		return file;
	os_report("statistics: descriptor %d is no longer the file that it was; they are printed "
		  "to standard error",
		  file);
	return STDERR_FILENO;
}

void stats_at_exit(void)
{
	enum sheaf_stats_format format =
		os_options.stats_json ? SHEAF_STATS_JSON : SHEAF_STATS_TEXT;
	int error = lock_can_be_had() ? sheaf_stats_print(file_at_exit(), format) : 0;

	if (error)
		os_report("cannot print statistics: %s", strerror(-error));
}
