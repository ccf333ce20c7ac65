/* SPDX-License-Identifier: MIT */
/*
 * A process for the tests of record-maps, which changes its address space in unusual ways.
 *
 *     calls     each call in unusual forms, also in forms that the kernel refuses
 *     threads   four threads that map and unmap the same pages at the same time
 *     killed    children that are killed while they map and unmap, some by one of their threads
 *     worker    each call once, and a fork, by a thread of a child, and then more children, for who
 *               kills it at each of its stops
 *     family    children by fork and vfork, an exec by a thread that is not the first
 *     signal    prints its PID, waits for SIGUSR1 and prints "caught", forever
 *     stop      prints its PID, stops itself, and prints "continued" when it is continued
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE	4096ul
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW	(PROT_READ | PROT_WRITE)

static char *map(void *at, size_t pages, int protection, int flags)
{
	void *found = mmap(at, pages * PAGE, protection, flags, -1, 0);

	if (found == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return found;
}

static void want(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "maps_calls: %s\n", what);
		exit(1);
	}
}

/* Use this many KiB of stack. */
static __attribute__((noinline)) int deep(int kib)
{
	volatile char room[1024];

	memset((char *)room, kib, sizeof(room));
	return kib ? deep(kib - 1) + room[7] : 0;
}

static void odd_protection(void)
{
	char *at = map(NULL, 20, RW, PRIVATE);

	munmap(at + 8 * PAGE, 2 * PAGE);
	/* The pages before the hole are changed; those after it are not. */
	want(mprotect(at + 3 * PAGE, 10 * PAGE, PROT_READ) != 0, "mprotect over a hole succeeded");
	want(mprotect(at + 8 * PAGE, PAGE, PROT_READ) != 0, "mprotect of a hole succeeded");
	want(mprotect(at + 1, PAGE, PROT_READ) != 0, "mprotect within a page succeeded");
	mprotect(at, 0, PROT_NONE);
	mprotect(at + PAGE, PAGE, PROT_NONE);
	mprotect(at + 14 * PAGE, 3, PROT_READ | PROT_EXEC);
}

static void odd_mappings(void)
{
	char *room = map(NULL, 32, PROT_NONE, PRIVATE), *at = room + 4 * PAGE;

	map(at, 16, RW, PRIVATE | MAP_FIXED);
	map(at + 4 * PAGE, 4, PROT_READ, PRIVATE | MAP_FIXED);
	map(at + 14 * PAGE, 6, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED);
	want(mmap(at, PAGE, RW, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED,
	     "MAP_FIXED_NOREPLACE replaced");
	want(mmap(NULL, 0, RW, PRIVATE, -1, 0) == MAP_FAILED, "nothing was mapped");
	want(mmap(NULL, PAGE, RW, MAP_PRIVATE, 999, 0) == MAP_FAILED, "a closed file was mapped");
	munmap(at + 3 * PAGE, 3 * PAGE);
	map(at + 4 * PAGE, 1, RW, PRIVATE);
	munmap(at - 2 * PAGE, 4 * PAGE);
	map(NULL, 4, RW, PRIVATE | MAP_GROWSDOWN)[0] = 1;
	want(munmap(at + 1, PAGE) != 0, "munmap within a page succeeded");
}

static void odd_moves(void)
{
	char *at = map(NULL, 8, RW, PRIVATE), *free_place = map(NULL, 64, RW, PRIVATE), *shared;

	munmap(free_place, 64 * PAGE);
	want(mremap(at, 8 * PAGE, 4 * PAGE, 0) == at, "mremap did not shrink");
	mremap(at, 4 * PAGE, 40 * PAGE, 0);
	at = mremap(at, 4 * PAGE, 12 * PAGE, MREMAP_MAYMOVE);
	want(at != MAP_FAILED, "mremap did not grow");
	at = mremap(at, 12 * PAGE, 6 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, free_place + 20 * PAGE);
	want(at == free_place + 20 * PAGE, "mremap did not move");
	mprotect(at + 2 * PAGE, PAGE, PROT_READ);
	/* glibc's own call passes garbage as the fifth argument here. */
	want(syscall(SYS_mremap, at, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0) > 0,
	     "mremap did not keep");
	shared = map(NULL, 5, RW, MAP_SHARED | MAP_ANONYMOUS);
	want(mremap(shared, 0, 5 * PAGE, MREMAP_MAYMOVE) != MAP_FAILED, "mremap did not map twice");
	want(mremap(shared + 1, PAGE, PAGE, 0) == MAP_FAILED, "mremap within a page succeeded");
}

static void odd_segments(void)
{
	int id = shmget(IPC_PRIVATE, 3 * PAGE, IPC_CREAT | 0600);
	void *first, *second;

	if (id < 0)
		return; /* a container may not have them */
	first = shmat(id, NULL, 0);
	second = shmat(id, NULL, SHM_RDONLY);
	shmctl(id, IPC_RMID, NULL);
	want(first != (void *)-1 && second != (void *)-1, "shmat");
	shmdt(first);
}

static void odd_heap(void)
{
	char *end = sbrk(0);

	sbrk(100 * (intptr_t)PAGE + 17);
	madvise(map(NULL, 3, RW, PRIVATE), 2 * PAGE, MADV_DONTNEED);
	brk(end + 20 * PAGE);
	brk(end + 50 * PAGE + 1);
	munmap((char *)(((uintptr_t)end + 30 * PAGE) & -PAGE), PAGE);
	deep(600);
}

static char *board; /* pages that all threads map and unmap */

static void *mapper(void *seed)
{
	uint64_t state = (uintptr_t)seed;

	for (int i = 0; i < 400; i++) {
		uint64_t at, pages;

		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		at = state >> 40 & 63;
		pages = 1 + (state >> 50 & 7);
		if (state >> 60 & 1)
			munmap(board + at * PAGE, pages * PAGE);
		else if (state >> 61 & 1)
			munmap(map(NULL, pages, RW, PRIVATE), PAGE);
		else
			map(board + at * PAGE, pages, PROT_READ, PRIVATE | MAP_FIXED);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[4];

	board = map(NULL, 80, RW, PRIVATE);
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, mapper, (void *)(i + 1));
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

static void *map_for_ever(void *unused)
{
	(void)unused;
	for (size_t pages = 1;; pages = pages % 7 + 1) {
		char *at = map(NULL, pages + 1, RW, PRIVATE);

		munmap(at, pages * PAGE);
	}
	return NULL;
}

/* One is killed by its parent; the other exits while two of its threads are in calls. */
static void killed(void)
{
	for (unsigned int i = 0; i < 40; i++) {
		pid_t child = fork();
		pthread_t thread;

		if (!child && i % 2)
			map_for_ever(NULL);
		if (!child) {
			pthread_create(&thread, NULL, map_for_ever, NULL);
			pthread_create(&thread, NULL, map_for_ever, NULL);
			usleep(500 + i * 50);
			_exit(0);
		}
		usleep(500 + i * 50);
		if (i % 2)
			kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

static void *each_call(void *unused)
{
	char *at = map(NULL, 20, RW, PRIVATE);
	pid_t child;

	(void)unused;
	munmap(at, 7 * PAGE);
	mprotect(at + 8 * PAGE, PAGE, PROT_READ);
	at = mremap(at + 10 * PAGE, 4 * PAGE, 40 * PAGE, MREMAP_MAYMOVE);
	want(at != MAP_FAILED, "mremap did not grow");
	mremap(at, 40 * PAGE, 3 * PAGE, 0);
	madvise(at, PAGE, MADV_DONTNEED);
	sbrk(3 * (intptr_t)PAGE);
	child = fork();
	if (!child) {
		munmap(at, PAGE);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	munmap(at, 2 * PAGE);
	return NULL;
}

static void worker(void)
{
	pthread_t thread;

	for (int i = 0; i < 3; i++) {
		pid_t child = fork();

		if (!child && i) {
			_exit(0);
		} else if (!child) {
			pthread_create(&thread, NULL, each_call, NULL);
			pthread_join(thread, NULL);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
}

static void *become(void *argument)
{
	execl("/proc/self/exe", "maps_calls", "calls", NULL);
	return argument;
}

static void family(void)
{
	pthread_t thread;
	pid_t child = fork();

	if (!child) {
		map(NULL, 5, RW, PRIVATE);
		child = fork();
		if (!child) {
			deep(300);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		_exit(0);
	}
	map(NULL, 7, RW, PRIVATE);
	waitpid(child, NULL, 0);
	child = vfork();
	if (!child) {
		execl("/proc/self/exe", "maps_calls", "calls", NULL);
		_exit(1);
	}
	waitpid(child, NULL, 0);
	pthread_create(&thread, NULL, become, NULL);
	pthread_join(thread, NULL);
}

static void say(int signal)
{
	(void)signal;
	if (write(STDOUT_FILENO, "caught\n", 7) < 0)
		_exit(1);
}

static void tell_number(void)
{
	printf("%d\n", (int)getpid());
	fflush(stdout);
}

static void be_signalled(void)
{
	sigset_t none;

	sigemptyset(&none);
	signal(SIGUSR1, say);
	tell_number();
	for (;;)
		sigsuspend(&none);
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";

	if (!strcmp(what, "calls")) {
		odd_protection();
		odd_mappings();
		odd_moves();
		odd_segments();
		odd_heap();
	} else if (!strcmp(what, "threads")) {
		threads();
	} else if (!strcmp(what, "killed")) {
		killed();
	} else if (!strcmp(what, "worker")) {
		worker();
	} else if (!strcmp(what, "family")) {
		family();
	} else if (!strcmp(what, "signal")) {
		be_signalled();
	} else if (!strcmp(what, "stop")) {
		tell_number();
		raise(SIGSTOP);
		puts("continued");
	} else {
		return 2;
	}
	return 0;
}
