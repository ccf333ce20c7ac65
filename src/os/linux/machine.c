/* SPDX-License-Identifier: MIT */
/*
 * The machine as Linux describes it: possible CPUs, nodes and caches from /sys; rseq from glibc.
 *
 * rseq: the library uses only the area that glibc (2.35 or later) registered, and writes only its
 * field rseq_cs. glibc's symbols are weak, so that the library also loads with older versions.
 * mm_cid is available only if the kernel says that it fills that much of the area.
 */
#include "os/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/rseq.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/atomic.h"
#include "os/linux/shared.h"
#include "os/options.h"
#include "os/report.h"
#include "os/tsan.h"

#define AT_RSEQ_FEATURE_SIZE 27
#define MAPPINGS_LIMIT	     65530 /* where the kernel does not say */
#define MPOL_BIND	     2
#define RSEQ_MM_CID	     24
#define RSEQ_MM_CID_END	     28
#define MASK_BITS	     (8 * sizeof(long))
/*
 * Up to this number of CPUs, rows are indexed by cpu_id, which saves four instructions per pair;
 * each row may keep sheaves that its program no longer uses. Above it, mm_cid is the index, so that
 * memory follows running threads.
 */
#define FEW_CPUS 16

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* mm_cid, at offset 24, is in no header older than Linux 6.3. */
_Static_assert(offsetof(struct rseq, cpu_id) == RSEQ_CPU_ID &&
		       offsetof(struct rseq, rseq_cs) == 8 &&
		       sizeof(((struct rseq *)0)->rseq_cs) == 8,
	       "sections know where the words of the rseq area are");

struct os_machine os;
static uint32_t membarrier_refused;

/* Read a small file; returns the length, or -1. With system calls: the C library's functions are
 * cancellation points, and a thread that is cancelled there would leave our locks held. */
static int read_file(const char *path, char *text, size_t size)
{
	int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (file < 0)
		return -1;
	length = syscall(SYS_read, file, text, size - 1);
	syscall(SYS_close, file);
	if (length < 0)
		return -1;
	text[length] = '\0';
	return (int)length;
}

/* Call set(cpu, value) for each number of a list such as "0-3,8". */
static void for_each_in_list(const char *list, void (*set)(unsigned int, unsigned int),
			     unsigned int value)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < OS_MAX_ROWS; first++)
			set((unsigned int)first, value);
		list = *end == ',' ? end + 1 : "";
	}
}

static void set_row(unsigned int cpu, unsigned int unused)
{
	(void)unused;
	if (cpu >= os.nr_cpus)
		os.nr_cpus = cpu + 1;
}

static void set_node(unsigned int cpu, unsigned int node)
{
	os.node_of_row[cpu] = (uint16_t)node;
	if (node >= os.nr_nodes)
		os.nr_nodes = node + 1;
}

static void set_llc(unsigned int cpu, unsigned int number)
{
	os.llc_of_cpu[cpu] = (uint16_t)number;
}

/*
 * M2 depends on this: neither the CPUs on which we may run nor those online bound what a section
 * reads. Returns false if the bound is unknown. The kernel copies as many bytes of its mask as
 * there are possible CPUs, and refuses if the buffer is too small.
 */
static bool find_rows(void)
{
	unsigned long mask[OS_MAX_ROWS / MASK_BITS];
	long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
	char text[256];

	if (read_file("/sys/devices/system/cpu/possible", text, sizeof(text)) > 0)
		for_each_in_list(text, set_row, 0);
	if (os.nr_cpus == 0)
		os.nr_cpus = bytes > 0 ? (uint32_t)bytes * 8 : 1;
	for (uint32_t cpu = 0; cpu < os.nr_cpus; cpu++)
		os.place_of[cpu].allowed =
			bytes <= 0 ||
			(cpu < (size_t)bytes * 8 && (mask[cpu / MASK_BITS] >> cpu % MASK_BITS & 1));
	return bytes > 0;
}

static unsigned int nr_present;

static void count_present(unsigned int cpu, unsigned int unused)
{
	(void)cpu, (void)unused;
	nr_present++;
}

/* Counted as the kernel does for its slab orders: present CPUs, or possible ones if only one is
 * present. */
static void find_present(void)
{
	char text[256];

	nr_present = 0;
	if (read_file("/sys/devices/system/cpu/present", text, sizeof(text)) > 0)
		for_each_in_list(text, count_present, 0);
	if (nr_present <= 1)
		nr_present = os.nr_cpus;
}

static void find_nodes(void)
{
	char path[64], text[4096];

	os.nr_nodes = 1;
	if (os_options.numa_fake) {
		uint32_t nodes = os_options.numa_fake;

		if (nodes > os.nr_cpus)
			nodes = os.nr_cpus;
		for (uint32_t row = 0; row < os.nr_cpus; row++)
			set_node(row, row * nodes / os.nr_cpus);
		return;
	}
	for (unsigned int node = 0; node < OS_MAX_NODES; node++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", node);
		if (read_file(path, text, sizeof(text)) > 0)
			for_each_in_list(text, set_node, node);
	}
}

/* For one CPU, unless another CPU behind the same cache has already listed it. */
static void find_llc(unsigned int cpu, unsigned int unused)
{
	char path[80], text[4096];

	(void)unused;
	if (os.llc_of_cpu[cpu])
		return;
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cache/index3/shared_cpu_list",
		 cpu);
	if (read_file(path, text, sizeof(text)) > 0)
		for_each_in_list(text, set_llc, cpu + 1);
}

/* 0 for CPUs that do not say. */
static void find_llcs(void)
{
	char text[1024];

	if (read_file("/sys/devices/system/cpu/online", text, sizeof(text)) > 0)
		for_each_in_list(text, find_llc, 0);
}

static char *rseq_area(void)
{
	return (char *)__builtin_thread_pointer() + os.rseq_offset;
}

/* The reason why the rseq backend cannot run; NULL if it can. */
static const char *rseq_obstacle(bool rows_known)
{
	if (os_options.backend_trylock)
		return "backend=trylock is set";
	if (tsan_is_there())
		return "the thread sanitizer cannot see restartable sequences";
	if (!rows_known)
		return "the kernel refuses sched_getaffinity";
#if defined(__x86_64__) || defined(__aarch64__)
	if (!&__rseq_size || !&__rseq_offset || __rseq_size == 0)
		return "the C library registers no restartable sequences";
	os.rseq_offset = __rseq_offset;
	if (*(volatile int32_t *)(rseq_area() + RSEQ_CPU_ID) < 0)
		return "the kernel refused to register restartable sequences";
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0)
		return NULL;
	return "the kernel refuses membarrier";
#else
	return "there are no sections for this processor";
#endif
}

static void choose_backend(bool rows_known)
{
	os.obstacle = rseq_obstacle(rows_known);
	os.backend = os.obstacle ? OS_BACKEND_TRYLOCK : OS_BACKEND_RSEQ;
	os.id_offset = RSEQ_CPU_ID;
	if (!os.obstacle && os.nr_nodes == 1 &&
	    getauxval(AT_RSEQ_FEATURE_SIZE) >= RSEQ_MM_CID_END &&
	    (os_options.index_mm_cid || (os.nr_cpus > FEW_CPUS && !os_options.index_cpu_id)))
		os.id_offset = RSEQ_MM_CID;
}

void os_init(void)
{
	int saved = errno;
	bool rows_known;

	os_options_init();
	os.counting = os_options.stats || os_options.stats_json || os_options.stats_live;
	os.tsan = tsan_is_there() && !TSAN_SEES_US;
	os.page_size = (size_t)sysconf(_SC_PAGESIZE);
	rows_known = find_rows();
	find_present();
	find_nodes();
	find_llcs();
	choose_backend(rows_known);
	os_find_places();
	errno = saved;
}

bool os_registered(void)
{
	return os.backend != OS_BACKEND_RSEQ ||
	       *(volatile int32_t *)(rseq_area() + RSEQ_CPU_ID) >= 0;
}

static unsigned int known_row(unsigned int row)
{
	return row < os.nr_cpus ? row : row % os.nr_cpus;
}

/*
 * A word of the rseq area, if the kernel serves it; otherwise the CPU number from the system call.
 */
static unsigned int row_at(uint32_t offset)
{
	int saved, cpu;

	if (os.backend == OS_BACKEND_RSEQ && os_registered())
		return known_row(*(volatile uint32_t *)(rseq_area() + offset));
	saved = errno;
	cpu = sched_getcpu();
	errno = saved;
	return known_row(cpu < 0 ? 0 : (unsigned int)cpu);
}

unsigned int os_row(void)
{
	return row_at(os.id_offset);
}

unsigned int os_cpu(void)
{
	return row_at(RSEQ_CPU_ID);
}

int os_policy_node(void)
{
	unsigned long nodes[OS_MAX_NODES / (8 * sizeof(long)) + 1] = {0};
	int saved = errno, mode = 0, node = OS_NO_NODE;
	unsigned int here = os_node();

	if (syscall(SYS_get_mempolicy, &mode, nodes, OS_MAX_NODES + 1, NULL, 0) == 0 && mode != 0 &&
	    !((mode & 0xff) == MPOL_BIND && (nodes[0] >> here & 1)) && nodes[0])
		node = __builtin_ctzl(nodes[0]);
	if (node >= (int)os.nr_nodes)
		node = OS_NO_NODE;
	errno = saved;
	return node;
}

unsigned int os_nr_cpus(void)
{
	return nr_present;
}

size_t os_mappings_limit(void)
{
	int saved = errno;
	char text[32];
	size_t limit = 0;

	if (read_file("/proc/sys/vm/max_map_count", text, sizeof(text)) > 0)
		limit = strtoul(text, NULL, 10);
	errno = saved;
	return limit ? limit : MAPPINGS_LIMIT;
}

bool os_membarrier(void)
{
	int saved = errno;
	bool done = true;

	if (os.backend == OS_BACKEND_RSEQ)
		done = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0;
	else
		os_fence();
	errno = saved;
	if (!done)
		os_report_once_later(
			&membarrier_refused,
			"the kernel now refuses membarrier: shrink and barriers reach only this "
			"CPU's sheaves. Allow this system call");
	return done;
}

void os_forget_nodes(void)
{
	os.nr_nodes = 1;
	memset(os.node_of_row, 0, sizeof(os.node_of_row));
	os_find_places();
}

void os_after_fork(void)
{
	int saved = errno;

	if (os.backend == OS_BACKEND_RSEQ)
		syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0);
	if (!shared_after_fork()) {
		os_report_later(
			"statistics: no memory for the counters of a forked child; its statistics "
			"are off");
		os.counting = 0;
	}
	errno = saved;
}

uintptr_t os_self(void)
{
	return (uintptr_t)pthread_self();
}

void os_sleep_briefly(void)
{
	int saved = errno;
	const struct timespec moment = {.tv_nsec = 50000};

	syscall(SYS_nanosleep, &moment, NULL);
	errno = saved;
}

static struct timespec read_clock(clockid_t clock)
{
	int saved = errno;
	struct timespec now = {0};

	clock_gettime(clock, &now);
	errno = saved;
	return now;
}

uint64_t os_now(void)
{
	struct timespec now = read_clock(CLOCK_MONOTONIC);

	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t os_now_ms(void)
{
	struct timespec now = read_clock(CLOCK_MONOTONIC_COARSE);

	return (uint32_t)((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
}

uint64_t os_random(void)
{
	static const uint64_t fallback = UINT64_C(0x9e3779b97f4a7c15);
	int saved = errno;
	uint64_t bits;

	/* Not getrandom(3), which is a cancellation point: locks are held. */
	if (syscall(SYS_getrandom, &bits, sizeof(bits), GRND_NONBLOCK) != sizeof(bits))
		bits = (uintptr_t)&bits * fallback;
	errno = saved;
	return bits;
}
