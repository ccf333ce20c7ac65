/* SPDX-License-Identifier: MIT */
/*
 * Wrong frees, each in a child: one line that names the caller and the block, then abort(); with
 * keep_going the program goes on. Wrong sizes: ignored; with check_sizes a line.
 */
#include <signal.h>
#include <sys/wait.h>

#include "check.h"

typedef void sized_fn(void *block, size_t size);
typedef void aligned_fn(void *block, size_t align, size_t size);
static sized_fn *free_sized, *delete_sized;
static aligned_fn *free_aligned_sized;

enum {
	MIB = 1 << 20
};

static void of_the_stack(void)
{
	char block[64] __attribute__((aligned(16)));

	free(HIDDEN((void *)block));
}

static void inside_large(void)
{
	char *block = malloc(HIDDEN((size_t)5 << 20));

	free(HIDDEN(block + 4096));
}

static void large_twice(void)
{
	char *block = malloc(HIDDEN((size_t)5 << 20));

	free(block);
	free(HIDDEN(block));
}

static void resize_of_the_stack(void)
{
	char block[64] __attribute__((aligned(16)));

	free(realloc(HIDDEN((void *)block), 1000));
}

static void small_twice(void)
{
	char *block = malloc(HIDDEN((size_t)40));

	free(block);
	free(HIDDEN(block));
}

static void inside_small(void)
{
	char *block = malloc(HIDDEN((size_t)200));

	free(HIDDEN(block + 16));
}

static void other_size(void)
{
	free_sized(malloc(HIDDEN((size_t)100)), HIDDEN((size_t)10));
	free_sized(malloc(HIDDEN((size_t)100)), HIDDEN((size_t)1000));
	delete_sized(malloc(HIDDEN((size_t)100)), HIDDEN((size_t)64));
	churn(1, 1000);
}

static void right_size(void)
{
	free_sized(malloc(HIDDEN((size_t)100)), 100);
	free_sized(realloc(malloc(HIDDEN((size_t)100)), 60), 60);
	delete_sized(malloc(HIDDEN((size_t)0)), 0);
	delete_sized(malloc(HIDDEN((size_t)3 * MIB)), 3 * MIB);
	free(malloc(HIDDEN((size_t)4 * MIB))); /* and the next block may be this one */
	delete_sized(malloc(HIDDEN((size_t)2 * MIB)), 2 * MIB);
	free_aligned_sized(aligned_alloc(64, 640), 64, 640);
	free_aligned_sized(aligned_alloc(2 * MIB, 100), 2 * MIB, 100);
	free_aligned_sized(aligned_alloc(4 * MIB, 5 * MIB), 4 * MIB, 5 * MIB);
}

/* Run it; true: it was aborted. Its standard error is in text, lines in number. */
static bool aborts(void (*wrong)(void), char *text, size_t size)
{
	int status, ends[2];
	size_t length = 0;
	ssize_t n;
	pid_t pid;

	CHECK(!pipe(ends));
	pid = fork();
	if (!pid) {
		dup2(ends[1], STDERR_FILENO);
		wrong();
		_exit(0);
	}
	close(ends[1]);
	while (length < size - 1 && (n = read(ends[0], text + length, size - 1 - length)) > 0)
		length += (size_t)n;
	text[length] = '\0';
	close(ends[0]);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(!status || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
	return status != 0;
}

static unsigned int lines(const char *text)
{
	unsigned int n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void check_wrong(void (*wrong)(void), const char *begins)
{
	bool goes_on = strstr(getenv("SHEAF_OPTIONS"), "keep_going");
	char text[8192];

	CHECK(aborts(wrong, text, sizeof(text)) == !goes_on);
	if (lines(text) != 1 || strncmp(text, begins, strlen(begins)) ||
	    !strstr(text, "called from")) {
		dprintf(STDERR_FILENO, "expected %s..., and one line:\n%s", begins, text);
		_exit(1);
	}
}

int main(void)
{
	const char *options = getenv("SHEAF_OPTIONS");
	char text[8192];

	check_ours();
	free_sized = (sized_fn *)symbol_of(RTLD_DEFAULT, "free_sized");
	free_aligned_sized = (aligned_fn *)symbol_of(RTLD_DEFAULT, "free_aligned_sized");
	delete_sized = (sized_fn *)symbol_of(RTLD_DEFAULT, "_ZdlPvm");
	check_wrong(of_the_stack, "libsheaf: free(0x");
	check_wrong(inside_large, "libsheaf: free(0x");
	check_wrong(large_twice, "libsheaf: free(0x");
	check_wrong(resize_of_the_stack, "libsheaf: realloc(0x");
	if (strstr(options, "hardened")) {
		check_wrong(small_twice, "libsheaf: free(kmalloc-");
		check_wrong(inside_small, "libsheaf: free(kmalloc-");
	}
	CHECK(!aborts(other_size, text, sizeof(text)));
	CHECK(lines(text) == (strstr(options, "check_sizes") ? 3 : 0));
	CHECK(!aborts(right_size, text, sizeof(text)));
	CHECK(!*text);
	return 0;
}
