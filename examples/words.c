/* SPDX-License-Identifier: MIT */
/*
 * words: a small program that allocates many small objects, to be run on libsheaf and on malloc.
 *
 *   readers --- parts (lines, words) ---> queue ---> checkers: count words, keep a while, check,
 * free
 *
 * Readers turn text files into linked objects and pass them on part by part. Checkers count the
 * words, keep the newest parts on a shelf, and compare every byte of the oldest part with the file
 * before they free it. So the thread that frees an object is not the one that allocated it. At the
 * end the counts must add up to the number of words read, and every cache must be empty.
 *
 *     cc -O2 words.c queue.c tally.c text.c -o words $(pkg-config --cflags --libs libsheaf) -pthread
 *     ./words --help
 */
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "queue.h"
#include "tally.h"
#include "text.h"

#define DEFAULT_FILE "/usr/share/common-licenses/GPL-3"
#define SHELF	     1000 /* parts a checker keeps: about 24 MB */
#define MAX_FILES    64
#define MAX_THREADS  64
#define TOP	     5

struct options {
	bool use_malloc, damage;
	unsigned int threads; /* readers, and as many checkers */
	size_t megabytes;     /* of text to read in all */
	int nr_files;
	const char *paths[MAX_FILES];
};

struct work {
	struct options options;
	struct file files[MAX_FILES];
	size_t copies; /* of all files together, one after the other */
	size_t bytes;  /* in all copies */
	atomic_size_t next_copy;
	atomic_size_t words, bytes_checked;
	atomic_bool wrong, damaged;
	struct queue queue;
};

struct checker {
	struct work *work;
	struct tally tally;
	struct part *oldest, **newest;
	size_t kept;
};

static struct store *const stores[] = {&parts, &lines, &words, &entries};

#define NR_STORES (sizeof(stores) / sizeof(stores[0]))

static void *read_copies(void *argument)
{
	struct work *work = argument;
	size_t copy;

	while ((copy = atomic_fetch_add(&work->next_copy, 1)) < work->copies) {
		const struct file *file = &work->files[copy % (size_t)work->options.nr_files];

		for (size_t at = 0; at < file->size;) {
			struct part *part = part_make(file, at);

			at += part->length;
			queue_put(&work->queue, part);
		}
	}
	queue_leave(&work->queue);
	return NULL;
}

static void check_oldest(struct checker *checker)
{
	struct part *part = checker->oldest;

	checker->oldest = part->next;
	if (!checker->oldest)
		checker->newest = &checker->oldest;
	checker->kept--;
	if (part_check(part))
		atomic_fetch_add(&checker->work->bytes_checked, part->length);
	else
		atomic_store(&checker->work->wrong, true);
	part_free(part);
}

static void count_words(struct checker *checker, const struct part *part)
{
	size_t before = checker->tally.count;

	for (const struct line *line = part->first; line; line = line->next)
		for (const struct word *word = line->first; word; word = word->next)
			if (word->length)
				tally_add(&checker->tally, word);
	atomic_fetch_add(&checker->work->words, checker->tally.count - before);
}

static void *check_parts(void *argument)
{
	struct checker *checker = argument;
	struct work *work = checker->work;
	struct part *part;

	checker->newest = &checker->oldest;
	while ((part = queue_get(&work->queue)) != NULL) {
		count_words(checker, part);
		if (work->options.damage && !atomic_exchange(&work->damaged, true))
			part_damage(part);
		part->next = NULL;
		*checker->newest = part;
		checker->newest = &part->next;
		if (++checker->kept > SHELF)
			check_oldest(checker);
	}
	while (checker->kept)
		check_oldest(checker);
	return NULL;
}

static void start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	int error = pthread_create(thread, NULL, run, argument);

	if (error) {
		fprintf(stderr, "words: cannot start a thread: %s\n", strerror(error));
		exit(1);
	}
}

static void run_threads(struct work *work, struct tally *total)
{
	pthread_t readers[MAX_THREADS], checking[MAX_THREADS];
	struct checker checkers[MAX_THREADS];
	unsigned int n = work->options.threads;

	queue_init(&work->queue, n);
	for (unsigned int i = 0; i < n; i++) {
		checkers[i] = (struct checker){.work = work};
		start(&checking[i], check_parts, &checkers[i]);
		start(&readers[i], read_copies, work);
	}
	for (unsigned int i = 0; i < n; i++)
		pthread_join(readers[i], NULL);
	for (unsigned int i = 0; i < n; i++) {
		pthread_join(checking[i], NULL);
		tally_merge(total, &checkers[i].tally);
	}
}

static void print_top(const struct tally *total)
{
	const struct entry *top[TOP];

	tally_top(total, top, TOP);
	printf("%-12s", "frequent");
	for (int i = 0; i < TOP && top[i]; i++)
		printf("%s%.*s %zu", i ? ", " : "", top[i]->length, top[i]->text, top[i]->count);
	printf("\n");
}

static void print_table(const struct options *options, double seconds)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	printf("%-12s%s\n%-12s%.3f s\n%-12s%.1f MB resident\n\n", "allocator",
	       options->use_malloc ? "malloc" : "sheaf", "time", seconds, "peak",
	       (double)usage.ru_maxrss / 1024);
	printf("%-12s%12s%22s\n", "cache", "object size", "objects at the peak");
	for (size_t i = 0; i < NR_STORES; i++)
		printf("%-12s%12zu%22zu\n", stores[i]->name, stores[i]->size,
		       atomic_load(&stores[i]->peak));
}

static bool parse(struct options *options, int argc, char **argv)
{
	*options = (struct options){.threads = 2, .megabytes = 64};
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--damage")) {
			options->damage = true;
		} else if (!strcmp(argv[i], "--allocator")) {
			options->use_malloc = !strcmp(value, "malloc");
			if (!options->use_malloc && strcmp(value, "sheaf") != 0)
				return false;
			i++;
		} else if (!strcmp(argv[i], "--threads")) {
			options->threads = (unsigned int)strtoul(value, NULL, 10);
			i++;
		} else if (!strcmp(argv[i], "--megabytes")) {
			options->megabytes = strtoul(value, NULL, 10);
			i++;
		} else if (argv[i][0] == '-' || options->nr_files == MAX_FILES) {
			return false;
		} else {
			options->paths[options->nr_files++] = argv[i];
		}
	}
	if (!options->nr_files)
		options->paths[options->nr_files++] = DEFAULT_FILE;
	return options->threads && options->threads <= MAX_THREADS && options->megabytes;
}

static bool open_files(struct work *work)
{
	size_t size = 0, wanted = work->options.megabytes << 20;
	size_t n = (size_t)work->options.nr_files;

	for (size_t i = 0; i < n; i++) {
		if (!file_read(&work->files[i], work->options.paths[i]))
			return false;
		size += work->files[i].size;
	}
	work->copies = (wanted + size - 1) / size * n;
	work->bytes = work->copies / n * size;
	return true;
}

static bool make_caches(void)
{
	for (size_t i = 0; i < NR_STORES; i++) {
		stores[i]->cache = kmem_cache_create(stores[i]->name, stores[i]->size, NULL, 0);
		if (!stores[i]->cache)
			return false;
	}
	return true;
}

/* Everything was freed; with libsheaf, the caches must agree. */
static bool all_empty(void)
{
	bool empty = true;

	for (size_t i = 0; i < NR_STORES; i++) {
		struct store *store = stores[i];

		empty &= atomic_load(&store->live) == 0;
		if (!store->cache)
			continue;
		empty &= kmem_cache_verify(store->cache) == 0;
		empty &= kmem_cache_shrink(store->cache) == 0;
		kmem_cache_destroy(store->cache);
	}
	return empty;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static struct work work;
	struct tally total = {0};
	double began, seconds;
	size_t words_read;

	if (!parse(&work.options, argc, argv)) {
		fprintf(stderr, "usage: words [--allocator sheaf|malloc] [--threads N] "
				"[--megabytes N] [--damage] [FILE]...\n"
				"Read text into linked objects, check every byte, free all; "
				"--damage flips a bit, which must be found.\n");
		return 2;
	}
	if (!open_files(&work) || (!work.options.use_malloc && !make_caches()))
		return 1;
	began = now();
	run_threads(&work, &total);
	seconds = now() - began;

	words_read = atomic_load(&work.words);
	printf("%-12s%zu bytes read and checked, %zu words in %zu copies of %d file%s\n", "text",
	       atomic_load(&work.bytes_checked), words_read, work.copies, work.options.nr_files,
	       work.options.nr_files == 1 ? "" : "s");
	print_top(&total);
	print_table(&work.options, seconds);
	if (atomic_load(&work.bytes_checked) != work.bytes && !atomic_load(&work.wrong)) {
		fprintf(stderr, "words: %zu bytes were to be read\n", work.bytes);
		return 1;
	}
	if (total.count != words_read) {
		fprintf(stderr, "words: %zu words were read, %zu counted\n", words_read,
			total.count);
		return 1;
	}
	tally_free(&total);
	for (int i = 0; i < work.options.nr_files; i++)
		free(work.files[i].text);
	if (!all_empty()) {
		fprintf(stderr, "words: a cache is not empty after everything was freed\n");
		return 1;
	}
	return atomic_load(&work.wrong) ? 1 : 0;
}
