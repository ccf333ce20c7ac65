/* SPDX-License-Identifier: MIT */
/* Parses SHEAF_OPTIONS; see options.h. */
#include "os/options/options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/machine.h"
#include "os/options/option.h"
#include "os/report/report.h"

#define NOTHING(field, name, meaning)
#define DEFAULT(field, name, least, most, value, meaning) .field = value,
#define DEFAULTS                                                                                   \
	{                                                                                          \
		OS_OPTIONS(NOTHING, DEFAULT, NOTHING)                                              \
	}

struct os_options os_options = DEFAULTS;
uint32_t os_options_read;

#define SWITCH(field, name, meaning) {name, &os_options.field, 0, 0, 0, meaning, NULL},
#define NUMBER(field, name, least, most, value, meaning)                                           \
	{name, &os_options.field, least, most, value, meaning, NULL},
#define TEXT(field, name, meaning) {name, NULL, 0, 0, 0, meaning, os_options.field},

const struct os_option os_option_table[OS_NR_OPTIONS] = {OS_OPTIONS(SWITCH, NUMBER, TEXT)};

#define CAPACITY "sheaf_capacity=" /* in its list commas separate items */

/* As many as the kernel has. */
#define HARDENED_KMALLOC_CACHES 16
#define TINY_MAX_ORDER		1

static bool is_given(const bool *given, const uint32_t *value)
{
	for (size_t i = 0; i < OS_NR_OPTIONS; i++)
		if (given[i] && os_option_table[i].value == value)
			return true;
	return false;
}

/* Options that contradict each other; os/linux/start.c reports those that this machine cannot
 * follow. */
static void report_contradictions(const bool *given)
{
	const struct os_options *o = &os_options;
	bool prints = o->stats || o->stats_json;

	if (o->backend_trylock && o->backend_rseq)
		os_report_later("SHEAF_OPTIONS: backend=trylock and backend=rseq; trylock is used");
	if (o->index_mm_cid && o->index_cpu_id)
		os_report_later("SHEAF_OPTIONS: index=mm_cid and index=cpu_id; mm_cid is used");
	if (o->merge && o->nomerge)
		os_report_later("SHEAF_OPTIONS: slab_merge and slab_nomerge; caches do not share "
				"slabs");
	if (o->stats && o->stats_json)
		os_report_later("SHEAF_OPTIONS: stats and stats=json; JSON is printed at exit");
	if (o->stats_live && prints)
		os_report_later(
			"SHEAF_OPTIONS: %s and stats=live; the counters are printed at exit",
			o->stats_json ? "stats=json" : "stats");
	if (o->hard_limit && o->soft_limit > o->hard_limit)
		os_report_later("SHEAF_OPTIONS: soft_limit=%u is above hard_limit=%u; it has no "
				"effect",
				o->soft_limit, o->hard_limit);
	if (is_given(given, &o->stats_fd) && !prints)
		os_report_later("SHEAF_OPTIONS: stats_fd=%u is ignored without stats or stats=json",
				o->stats_fd);
}

/* The options that one option stands for. slab_freelist_random is not among them: objects that are
 * allocated one after the other would lie apart, which can make a program slower by a quarter and
 * more. */
static void apply_presets(const bool *given)
{
	struct os_options *o = &os_options;

#ifdef SHEAF_SLUB_TINY
	o->tiny = 1;
#endif
	if (o->tiny && !is_given(given, &o->max_order))
		o->max_order = TINY_MAX_ORDER;
	if (o->hardened) {
		o->check_double = o->guard_pools = 1;
		if (!o->random_kmalloc_caches)
			o->random_kmalloc_caches = HARDENED_KMALLOC_CACHES;
	}
	if (is_given(given, &o->profile_mean) || o->profile_leaks)
		o->profile = 1;
	if (o->check_double)
		o->check_pop = o->check_free = 1;
	/* A pointer must be checked before it is cleared. */
	if (o->init_on_free)
		o->check_free = 1;
}

/* Processes that it starts, and its forked children, inherit the text. */
static void keep_to_process(void)
{
	struct os_options *o = &os_options;

	if (o->process && o->process != (uint32_t)getpid())
		o->stats = o->stats_json = o->stats_live = o->control = 0;
}

bool os_options_parse(const char *text)
{
	bool understood = true, debug = false, given[OS_NR_OPTIONS] = {false};

	os_options = (struct os_options)DEFAULTS;
	os_capacities.n = 0;
	while (*text) {
		size_t whole = strcspn(text, "; "), length = strcspn(text, ";, ");

		debug = os_option_is_debug(text, whole, debug);
		if (debug) {
			length = whole;
			understood &= os_option_add_debug(text, length);
		} else if (os_option_has_name(text, length, CAPACITY)) {
			length = whole;
			understood &= os_option_add_capacities(text + sizeof(CAPACITY) - 1,
							       length - (sizeof(CAPACITY) - 1));
		} else if (length)
			understood &= os_option_read(text, length, given);
		text += length;
		text += *text != '\0';
	}
	apply_presets(given);
	report_contradictions(given);
	keep_to_process();
	os_store_release(&os_options_read, OS_OPTIONS_READ);
	return understood;
}

void os_options_find(void)
{
	uint32_t unread = OS_OPTIONS_UNREAD;
	const char *text;

	if (!os_cmpxchg(&os_options_read, &unread, OS_OPTIONS_READING))
		return;
	text = secure_getenv("SHEAF_OPTIONS");
	os_options_parse(text ? text : "");
}

void os_options_init(void)
{
	os_options_find();
	while (os_load_acquire(&os_options_read) != OS_OPTIONS_READ)
		os_sleep_briefly();
}

void os_options_after_fork(void)
{
	if (os_options_read == OS_OPTIONS_READING)
		os_options_read = OS_OPTIONS_UNREAD;
	else
		keep_to_process();
}
