/* SPDX-License-Identifier: MIT */
/*
 * The requests that other processes make through the control socket (os/channel.h): a line of
 * words, then a tab and a cache's name, which may end in *. Without a name: all caches.
 *
 *   traces alloc|free text|json [TAB NAME]     kmem_cache_print_traces()
 *   validate [TAB NAME]                        kmem_cache_validate()
 *   groups                                     those of sheaf_stats_print(), as JSON
 *   stats                                      all that sheaf_stats_print() prints as JSON
 *   trim                                       sheaf_trim(0), but for shrinkers: the call that
 *                                              answers may hold the program's locks
 *   debug [+T|-T|+A|-A|+Q|-Q]... [TAB NAME]   switch letters of checked caches, and list these
 *   profile [on [BYTES]|off]                   switch the heap profile, and list its raw samples
 *   tune [SETTING=N]... [TAB NAME]            change settings, and list them: tune.c
 *
 * An answer is "ok", with a file, or "error WHY". tools/sheaf_tool/control.py asks.
 *
 * The work is done at the end of a slow call of any thread, with no lock held and nothing in hand,
 * and takes as long as the same call in the program would; the asker cannot make it wait. Calls
 * that never wait do not do it. Reports from the work go where all reports go.
 *
 * Letters that change an object's layout (Z, U) or its bytes while it is free (P) cannot change
 * while there are objects, and F is in force in every checked cache. So only T, A and Q can be
 * switched.
 *
 * Locks: those of the calls. Callers: src/cache/, by cache_leave().
 */
#include <stdio.h>
#include <string.h>

#include <sheaf/debug.h>

#include "cache/list.h"
#include "cache/publish.h"
#include "cache/reclaim.h"
#include "cache/sampling.h"
#include "cache/verify.h"
#include "control/question.h"
#include "debug/slab_debug.h"
#include "os/channel.h"
#include "stats/stats.h"

bool question_means(const void *data, const struct kmem_cache *s)
{
	const struct question *question = data;

	return s->name && (!question->name ||
			   os_name_matches(question->name, strlen(question->name), s->name));
}

void question_for_each(struct question *question,
		       void (*each)(struct question *question, struct out *out,
				    struct kmem_cache *s))
{
	out_print(question->out, "[");
	for (struct kmem_cache *s = list_next(NULL); s; s = list_next(s))
		if (question_means(question, s))
			each(question, question->out, s);
	out_print(question->out, "]\n");
}

void question_begin_cache(struct question *question, struct out *out, const struct kmem_cache *s)
{
	out_print(out, "%s{\"cache\": ", question->caches++ ? ",\n" : "");
	out_quoted(out, s->name);
}

static void validate_cache(struct question *question, struct out *out, struct kmem_cache *s)
{
	int faults = cache_validate(s);

	question_begin_cache(question, out, s);
	out_print(out, ", \"checked\": %s, \"faults\": %d}", cache_is_checked(s) ? "true" : "false",
		  faults);
}

static void validate(struct question *question)
{
	question_for_each(question, validate_cache);
	if (!question->caches)
		question->error = "there is no such cache";
}

static void print_traces_of(struct question *question, enum sheaf_traces which,
			    enum sheaf_stats_format format)
{
	int n = traces_print(question->out, question_means, question, which, format);

	if (n < 0)
		question->error = strerror(-n);
	else if (!n)
		question->error = "no such cache stores who allocated its objects; start the "
				  "program with SHEAF_OPTIONS=slab_debug";
}

static void traces(struct question *question)
{
	char which[8], format[8];

	if (sscanf(question->words, "traces %7s %7s", which, format) != 2 ||
	    (strcmp(which, "alloc") && strcmp(which, "free")) ||
	    (strcmp(format, "text") && strcmp(format, "json")))
		question->error = "traces alloc|free text|json";
	else
		print_traces_of(question, *which == 'a' ? SHEAF_ALLOC_TRACES : SHEAF_FREE_TRACES,
				*format == 't' ? SHEAF_STATS_TEXT : SHEAF_STATS_JSON);
}

static void show_groups(struct question *question)
{
	struct group_table table;

	if (!groups_read(&table)) {
		question->error = "no memory for the answer";
		return;
	}
	groups_print_json(question->out, &table);
	out_print(question->out, "\n");
	if (!table.n)
		question->error = "it has no groups: see kmem_group_create(3)";
	groups_release(&table);
}

static void show_stats(struct question *question)
{
	struct stats *stats = stats_read();

	if (stats) {
		stats_print_json(question->out, stats);
		stats_release(stats);
	} else {
		question->error = "no memory for the answer";
	}
}

static void return_memory(struct question *question)
{
	out_print(question->out, "[{\"returned_bytes\": %zu}]\n", reclaim_free_memory(0));
}

static void switch_letters(struct question *question, struct out *out, struct kmem_cache *s)
{
	char letters[DEBUG_LETTERS];

	if (!cache_is_checked(s))
		return;
	for (const char *at = question->words + strcspn(question->words, " "); *at; at++)
		if (*at == '+' || *at == '-')
			debug_switch(&s->sheaf.slab, debug_flag_of(at[1]), *at == '+');
	debug_letters(&s->sheaf.slab, letters);
	question_begin_cache(question, out, s);
	os_lock(&caches.lock);
	publish_cache(s);
	os_unlock(&caches.lock);
	out_print(out, ", \"letters\": \"%s%s\"}", letters, cache_is_guarded(s) ? "G" : "");
}

static void debug(struct question *question)
{
	for (const char *at = question->words + strcspn(question->words, " "); *at; at++)
		if (*at != ' ' &&
		    !((*at == '+' || *at == '-') && debug_flag_of(*++at) & DEBUG_SWITCHED)) {
			question->error =
				"only the letters T, A and Q can be switched in a running "
				"process; start it with SHEAF_OPTIONS=slab_debug for others";
			return;
		}
	question_for_each(question, switch_letters);
	if (!question->caches)
		question->error = "no such cache is checked; start the program with "
				  "SHEAF_OPTIONS=slab_debug";
}

static void switch_profile(struct question *question)
{
	const char *what = question->words + strlen("profile ");
	unsigned long long mean = PROFILE_MEAN;
	char more;

	if (!strcmp(what, "off"))
		sampling_end();
	else if ((strcmp(what, "on") &&
		  (strncmp(what, "on ", 3) || sscanf(what + 3, "%10llu%c", &mean, &more) != 1)) ||
		 mean < PROFILE_LEAST || mean > PROFILE_MOST)
		question->error =
			"profile [on [BYTES]|off]: one sample in 4096 to 1073741824 bytes";
	else if (!sampling_begin((uint32_t)mean, PROFILE_WANTED))
		question->error = "no memory or too few addresses for samples; raise the limits of "
				  "the process (prlimit)";
}

static void show_profile(struct question *question)
{
	if (strchr(question->words, ' '))
		switch_profile(question);
	if (!question->error && !profile_run())
		question->error = "it takes no samples; ask for profile on, or start it with "
				  "SHEAF_OPTIONS=profile";
	if (!question->error)
		profile_print_json(question->out);
}

static void find_answer(struct question *question)
{
	size_t length = strcspn(question->words, " ");

#define ANSWER(word, by)                                                                           \
	if (length == sizeof(word) - 1 && !memcmp(question->words, word, length))                  \
	return by(question)
	ANSWER("traces", traces);
	ANSWER("validate", validate);
	ANSWER("groups", show_groups);
	ANSWER("stats", show_stats);
	ANSWER("trim", return_memory);
	ANSWER("debug", debug);
	ANSWER("profile", show_profile);
	ANSWER("tune", question_tune);
#undef ANSWER
	question->error = "it does not know this question: another version of libsheaf?";
}

static void answer(char *line)
{
	static char text[OUT_BYTES] OS_LARGE; /* one thread answers at a time */
	const struct os_descriptor *file = os_channel_file();
	struct out out = {.fd = file ? file->file : -1, .ours = file, .text = text};
	char *tab = strchr(line, '\t');
	struct question question = {.words = line, .name = tab ? tab + 1 : NULL, .out = &out};

	if (tab)
		*tab = '\0';
	if (file) {
		find_answer(&question);
		out_flush(&out);
		if (!question.error && out.error)
			question.error = "no memory for the answer";
	} else {
		question.error = "it cannot create a file in memory (ulimit -f?)";
	}
	os_channel_answer(question.error);
}

void control_look(void)
{
	OS_KEEP_ERRNO;

	if (os_channel_enter()) {
		char *line = os_channel_request();

		if (line)
			answer(line);
		os_channel_leave();
		os_report_kept();
	}
}
