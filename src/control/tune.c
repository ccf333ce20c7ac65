/* SPDX-License-Identifier: MIT */
/*
 * Tuning from outside: the request `tune` of the control socket.
 *
 *   tune [SIZE=N]... [TAB NAME]     sizes of caches (cache/sizes.h); 0: the library chooses, for
 *                                   limit: none, for min_partial: none are kept
 *   tune decay=MS|never             the option of the process
 *
 * All values are checked first, for all caches that the request names, so it changes everything or
 * nothing. The answer lists what is in force then, and who set it.
 *
 * Locks: OS_RANK_CACHES while it checks and changes: no cache comes or goes in between.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/housekeeping.h"
#include "cache/list.h"
#include "cache/publish.h"
#include "control/question.h"

#define DECAY_MOST 3600000 /* the option's */

struct wanted {
	bool given[NR_SIZES], of_caches, decay;
	uint64_t values[NR_SIZES], decay_ms;
};

static OS_COLD __attribute__((format(printf, 2, 3))) void fail(struct question *question,
							       const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(question->why, sizeof(question->why), format, args);
	va_end(args);
	os_make_plain(question->why, strlen(question->why));
	question->error = n > 0 ? question->why : "nothing changed";
}

/* The word after its =, a number up to the most. */
static void read_number(struct question *question, const char *word, uint64_t most, uint64_t *value)
{
	const char *digits = strchr(word, '=') + 1;
	size_t length = strspn(digits, "0123456789");

	errno = 0;
	*value = strtoull(digits, NULL, 10);
	if (!length || digits[length] || *value > most || errno)
		fail(question,
		     "%.*s=%.24s for %.48s: not a number from 0 to %" PRIu64 "; nothing changed",
		     (int)(digits - 1 - word), word, digits,
		     question->name ? question->name : "the process", most);
}

static void read_word(struct question *question, const char *word, struct wanted *wanted)
{
	size_t length = strcspn(word, "=");

	for (unsigned int i = 0; i < NR_SIZES; i++)
		if (word[length] && strlen(size_kinds[i].name) == length &&
		    !memcmp(word, size_kinds[i].name, length)) {
			wanted->given[i] = wanted->of_caches = true;
			read_number(question, word, size_kinds[i].most, &wanted->values[i]);
			return;
		}
	wanted->decay = true;
	wanted->decay_ms = DECAY_NEVER;
	if (!strncmp(word, "decay=", 6)) {
		if (strcmp(word + 6, "never"))
			read_number(question, word, DECAY_MOST, &wanted->decay_ms);
	} else {
		fail(question,
		     "\"%.40s\" is not capacity=N, barn_full=N, barn_empty=N, limit=N, "
		     "min_partial=N or decay=N; nothing changed",
		     word);
	}
}

static bool read_words(struct question *question, struct wanted *wanted)
{
	char *rest = question->words, *word = strtok_r(rest, " ", &rest); /* "tune" */

	while (!question->error && (word = strtok_r(NULL, " ", &rest)) != NULL)
		read_word(question, word, wanted);
	if (!question->error && wanted->of_caches && !question->name)
		fail(question, "name a cache for these settings, or * for all; nothing changed");
	if (!question->error && wanted->decay && question->name)
		fail(question, "decay=N is for the process: name no cache; nothing changed");
	return !question->error;
}

static bool is_tuned(const struct question *question, const struct kmem_cache *s)
{
	return !cache_is_leaked(s) && question_means(question, s);
}

static void check_sizes(struct question *question, const struct wanted *wanted,
			const struct kmem_cache *s)
{
	question->caches++;
	for (unsigned int i = 0; i < NR_SIZES; i++)
		if (wanted->given[i] && !size_exists(s, i))
			fail(question,
			     "%s=%" PRIu64 " for %.60s: this cache has no sheaves; "
			     "nothing changed",
			     size_kinds[i].name, wanted->values[i], s->name);
}

static void set_sizes_of(const struct wanted *wanted, struct kmem_cache *s)
{
	for (unsigned int i = 0; i < NR_SIZES; i++)
		if (wanted->given[i])
			size_set(s, i, wanted->values[i], SIZE_BY_TUNE);
}

static void tune_caches(struct question *question, const struct wanted *wanted)
{
	struct kmem_cache *s;

	housekeeping_know_grants();
	os_lock(&caches.lock);
	for (s = caches.first; s; s = s->next)
		if (is_tuned(question, s))
			check_sizes(question, wanted, s);
	for (s = caches.first; s && !question->error; s = s->next)
		if (is_tuned(question, s))
			set_sizes_of(wanted, s);
	os_unlock(&caches.lock);
	question->caches = 0;
	if (question->error || !wanted->given[SIZE_LIMIT])
		return;
	for (s = list_next(NULL); s; s = list_next(s))
		if (is_tuned(question, s))
			size_keep_limit(s, "sheaf tune");
}

static void print_setting(struct out *out, const char *before, const char *name, uint64_t value,
			  enum size_setter by)
{
	static const char setters[][10] = {"automatic", "program", "options", "tune"};

	out_print(out, "%s\"%s\": {\"value\": %" PRIu64 ", \"by\": \"%.9s\"}", before, name, value,
		  setters[by]);
}

static void print_sizes(struct question *question, struct out *out, struct kmem_cache *s)
{
	const char *before = "";

	if (!is_tuned(question, s))
		return;
	question_begin_cache(question, out, s);
	out_print(out, ", \"settings\": {");
	for (unsigned int i = 0; i < NR_SIZES; i++)
		if (size_exists(s, i)) {
			print_setting(out, before, size_kinds[i].name, size_now(s, i),
				      size_set_by(s, i));
			before = ", ";
		}
	out_print(out, "}}");
}

void question_tune(struct question *question)
{
	struct wanted wanted = {.decay_ms = 0};

	if (!read_words(question, &wanted))
		return;
	if (wanted.decay) {
		decay_set_ms((uint32_t)wanted.decay_ms);
		publish_decay(SIZE_BY_TUNE);
	} else if (wanted.of_caches) {
		tune_caches(question, &wanted);
	}
	if (question->error)
		return;
	if (!question->name) {
		out_print(question->out, "[{\"cache\": null, \"settings\": {");
		print_setting(question->out, "", "decay", decay_ms(),
			      os_load_relaxed(&decay_time.set_by));
		out_print(question->out, "}}]\n");
		return;
	}
	question_for_each(question, print_sizes);
	if (!question->caches)
		fail(question,
		     "there is no cache %.60s; a merged one has the name under which it "
		     "was made",
		     question->name);
}
