/* SPDX-License-Identifier: MIT */
/*
 * A library to preload: which sizes a program allocates, and how long it keeps them.
 * bench/record/record runs a program with it; `sheaf bench kmalloc` replays what was recorded.
 *
 * The age of an object is the number of allocations the program makes, in all threads, from its own
 * until it is freed; objects that are live at the end count as kept. A table of live objects is
 * searched by address (open addressing, linear probing); all of it is under one lock, which every
 * call takes.
 *
 * At exit one line of JSON goes to RECORD_OUT/PID.json: allocations, reallocations (counted as a
 * free and an allocation), frees by a thread other than the allocating one, the most objects and
 * bytes live, and rows of size, how many were kept, and how many were freed at an age of 0, 1, 2-3,
 * 4-7, ...
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXACT                                                                                      \
	1024 /* bytes: up to here sizes are exact to 8 bytes, above to an eighth of a doubling */
#define EXACTS	(EXACT / 8)
#define CLASSES (EXACTS + 8 * 30)
#define AGES	40
#define LIVE	((size_t)1 << 22) /* objects there is room for; a power of two */

#define PUBLIC __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *object);

struct live {
	void *object; /* NULL: free cell */
	uint64_t born;
	uint32_t size_class;
	uint32_t thread;
	size_t size;
};

static struct {
	pthread_mutex_t lock;
	struct live *table;
	uint64_t allocations, reallocations, foreign_frees, lost;
	size_t objects, bytes, most_objects, most_bytes;
	uint64_t kept[CLASSES], ages[CLASSES][AGES];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned int class_of(size_t size)
{
	unsigned int bits, found;

	if (size <= EXACT)
		return size ? (unsigned int)((size - 1) / 8) : 0;
	bits = 63 - (unsigned int)__builtin_clzl(size - 1); /* 2^bits <= size - 1 */
	found = EXACTS + 8 * (bits - 10) + (unsigned int)((size - 1) >> (bits - 3)) % 8;
	return found < CLASSES ? found : CLASSES - 1;
}

/* The largest size of a class. */
static size_t size_of(unsigned int size_class)
{
	unsigned int above = size_class - EXACTS;

	if (size_class < EXACTS)
		return 8 * ((size_t)size_class + 1);
	return (size_t)(above % 8 + 9) << (above / 8 + 7);
}

static size_t home(const void *object)
{
	return (size_t)(((uintptr_t)object >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (LIVE - 1);
}

static uint32_t thread_number(void)
{
	static uint32_t threads;
	static __thread uint32_t number __attribute__((tls_model("initial-exec")));

	if (!number)
		number = ++threads;
	return number;
}

static bool have_table(void)
{
	if (!all.table) {
		void *room = mmap(NULL, LIVE * sizeof(*all.table), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		all.table = room == MAP_FAILED ? NULL : room;
	}
	return all.table != NULL;
}

static void note(void *object, size_t size)
{
	unsigned int size_class = class_of(size);
	size_t i;

	if (all.objects >= LIVE / 2 || !have_table()) {
		all.lost++;
		return;
	}
	for (i = home(object); all.table[i].object; i = (i + 1) & (LIVE - 1))
		;
	all.table[i] = (struct live){object, all.allocations++, size_class, thread_number(), size};
	all.objects++;
	all.bytes += size;
	if (all.objects > all.most_objects)
		all.most_objects = all.objects;
	if (all.bytes > all.most_bytes)
		all.most_bytes = all.bytes;
}

/* Close the gap at i: searches for entries behind it must not end there. */
static void remove_cell(size_t i)
{
	size_t next = i;

	while (true) {
		size_t wanted;

		next = (next + 1) & (LIVE - 1);
		if (!all.table[next].object)
			break;
		wanted = home(all.table[next].object);
		if (((next - wanted) & (LIVE - 1)) >= ((next - i) & (LIVE - 1))) {
			all.table[i] = all.table[next];
			i = next;
		}
	}
	all.table[i].object = NULL;
}

static void forget(void *object)
{
	size_t i;
	struct live *live;
	uint64_t age;

	if (!all.table)
		return;
	for (i = home(object); all.table[i].object != object; i = (i + 1) & (LIVE - 1))
		if (!all.table[i].object)
			return; /* its allocation was not seen */
	live = &all.table[i];
	age = all.allocations - live->born - 1;
	all.ages[live->size_class][age ? 64 - __builtin_clzl(age) : 0]++;
	all.foreign_frees += live->thread != thread_number();
	all.objects--;
	all.bytes -= live->size;
	remove_cell(i);
}

static void *noted(void *object, size_t size)
{
	if (object) {
		pthread_mutex_lock(&all.lock);
		note(object, size);
		pthread_mutex_unlock(&all.lock);
	}
	return object;
}

PUBLIC void *malloc(size_t size)
{
	return noted(__libc_malloc(size), size);
}

PUBLIC void *calloc(size_t n, size_t size)
{
	return noted(__libc_calloc(n, size), n * size);
}

PUBLIC void free(void *object)
{
	if (!object)
		return;
	pthread_mutex_lock(&all.lock);
	forget(object);
	pthread_mutex_unlock(&all.lock);
	__libc_free(object);
}

/* Under the lock: another thread may get the old address immediately. */
PUBLIC void *realloc(void *old, size_t size)
{
	void *object;

	pthread_mutex_lock(&all.lock);
	object = __libc_realloc(old, size);
	if (old && (object || !size)) {
		forget(old);
		all.reallocations++;
	}
	if (object)
		note(object, size);
	pthread_mutex_unlock(&all.lock);
	return object;
}

PUBLIC void *memalign(size_t align, size_t size)
{
	return noted(__libc_memalign(align, size), size);
}

PUBLIC void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

PUBLIC int posix_memalign(void **out, size_t align, size_t size)
{
	void *object = memalign(align, size);

	if (!object)
		return ENOMEM;
	*out = object;
	return 0;
}

static void print_row(FILE *to, unsigned int size_class, bool *first)
{
	const uint64_t *ages = all.ages[size_class];
	unsigned int last = 0;
	uint64_t sum = all.kept[size_class];

	for (unsigned int i = 0; i < AGES; i++) {
		sum += ages[i];
		if (ages[i])
			last = i;
	}
	if (!sum)
		return;
	fprintf(to, "%s[%zu, %lu", *first ? "" : ", ", size_of(size_class), all.kept[size_class]);
	for (unsigned int i = 0; i <= last; i++)
		fprintf(to, ", %lu", ages[i]);
	fprintf(to, "]");
	*first = false;
}

static __attribute__((destructor)) void print(void)
{
	const char *directory = getenv("RECORD_OUT");
	bool first = true;
	char path[PATH_MAX];
	FILE *to;
	uint64_t allocations = all.allocations; /* without that of the file */

	if (!directory || !all.table)
		return;
	for (size_t i = 0; i < LIVE; i++)
		if (all.table[i].object)
			all.kept[all.table[i].size_class]++;
	snprintf(path, sizeof(path), "%s/%d.json", directory, (int)getpid());
	to = fopen(path, "w");
	if (!to) {
		perror(path);
		return;
	}
	fprintf(to,
		"{\"allocations\": %lu, \"reallocations\": %lu, \"foreign_frees\": %lu, "
		"\"lost\": %lu, \"most_objects\": %zu, \"most_bytes\": %zu, \"rows\": [",
		allocations, all.reallocations, all.foreign_frees, all.lost, all.most_objects,
		all.most_bytes);
	for (unsigned int i = 0; i < CLASSES; i++)
		print_row(to, i, &first);
	fprintf(to, "]}\n");
	fclose(to);
}
