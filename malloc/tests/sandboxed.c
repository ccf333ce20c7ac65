/* SPDX-License-Identifier: MIT */
/*
 * A sandbox that refuses system calls from the start: restartable sequences, membarrier, mremap, or
 * every file, as in a container without /proc and /sys. Usage: sandboxed
 * rseq|membarrier|mremap|files
 *
 * The C library registers its area before any constructor, so the program starts itself again for
 * that one; it opens files to start, so these are refused just before all constructors.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

enum {
	SKIPPED = 77,
	THREADS = 4
};

static void refuse(unsigned int call, unsigned int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(code) / sizeof(*code), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
		dprintf(STDERR_FILENO, "skipped: seccomp\n");
		_exit(SKIPPED);
	}
}

static void very_early(int argc, char **argv, char **environment)
{
	(void)environment;
	CHECK(argc == 2);
	if (!strcmp(argv[1], "membarrier"))
		refuse(SYS_membarrier, EPERM);
	if (!strcmp(argv[1], "mremap"))
		refuse(SYS_mremap, EPERM);
	if (strcmp(argv[1], "files"))
		return;
#ifdef SYS_open
	refuse(SYS_open, ENOENT);
#endif
	refuse(SYS_openat, ENOENT);
}
static void (*const early)(int, char **, char **)
	__attribute__((section(".preinit_array"), used)) = very_early;

static void *allocates(void *seed)
{
	churn((unsigned int)(uintptr_t)seed, 5000);
	return strdup("a text");
}

static size_t address_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	size_t pages;

	CHECK(file && fscanf(file, "%zu", &pages) == 1);
	fclose(file);
	return pages * (size_t)getpagesize();
}

/* Blocks that grow are copied, and no addresses are lost. */
static void grow(void)
{
	size_t size = 2 << 20;
	size_t before = address_bytes();
	char *block;

	for (int i = 0; i < 100; i++) {
		block = realloc(malloc(HIDDEN(size)), HIDDEN(size + size / 8));
		CHECK(block);
		free(block);
	}
	CHECK(address_bytes() < before + 30 * size);
}

static void use(void)
{
	pthread_t threads[THREADS];
	void *text;
	int status;
	pid_t child;

	churn(1, 5000);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, allocates, (void *)i));
	for (int i = 0; i < THREADS; i++) {
		CHECK(!pthread_join(threads[i], &text) && is_ours(text));
		free(text);
	}
	child = fork();
	if (!child) {
		churn(2, 1000);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	child = vfork();
	if (!child) {
		churn(3, 1000);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
}

int main(int argc, char **argv)
{
	const struct rseq *area = (void *)((char *)__builtin_thread_pointer() + __rseq_offset);
	FILE *file;

	CHECK(argc == 2);
	if (!strcmp(argv[1], "rseq")) {
		refuse(SYS_rseq, ENOSYS);
		execl("/proc/self/exe", argv[0], "without-rseq", (char *)NULL);
		return 1;
	}
	if (!strcmp(argv[1], "files")) {
		file = fopen("/proc/self/maps", "r");
		CHECK(!file);
	}
	CHECK(strcmp(argv[1], "without-rseq") || !__rseq_size || (int32_t)area->cpu_id < 0);
	check_ours();
	if (!strcmp(argv[1], "mremap"))
		grow();
	use();
	return 0;
}
