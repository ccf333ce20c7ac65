/* SPDX-License-Identifier: MIT */
/*
 * Chooses the backend, and provides small services of the kernel; topology.c finds CPUs and nodes.
 *
 * rseq: the library uses only the area that glibc (2.35 or later) registered, and writes only its
 * field rseq_cs. glibc's symbols are weak, so that the library also loads with older versions.
 * mm_cid is available only if the kernel says that it fills that much of the area.
 */
#include "os/machine.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <linux/rseq.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "os/atomic.h"
#include "os/linux/linux.h"
#include "os/memory.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/tools.h"
#include "os/tsan.h"
#include "os/unwind/stack.h"

#define AT_RSEQ_FEATURE_SIZE	 27
#define MPOL_PREFERRED		 1
#define MPOL_INTERLEAVE		 3
#define MPOL_WEIGHTED_INTERLEAVE 6
#define MPOL_MODE		 0xff /* above are flags */
#define RSEQ_MM_CID		 24
#define RSEQ_MM_CID_END		 28
/*
 * Up to this number of CPUs, rows are indexed by cpu_id, which saves four instructions per pair;
 * each row may keep sheaves that its program no longer uses. Above it, mm_cid is the index, so that
 * memory follows running threads.
 */
#define FEW_CPUS 16

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
extern char __libc_single_threaded __attribute__((weak));

/* mm_cid, at offset 24, is missing in headers older than Linux 6.3. */
_Static_assert(offsetof(struct rseq, cpu_id) == RSEQ_CPU_ID &&
		       offsetof(struct rseq, rseq_cs) == 8 &&
		       sizeof(((struct rseq *)0)->rseq_cs) == 8,
	       "sections know where the words of the rseq area are");

struct os_machine os;
static uint32_t membarrier_refused, unforeseen_cpu; /* reported */
static uint32_t interleaved;			    /* objects */

static char *rseq_area(void)
{
	return (char *)__builtin_thread_pointer() + os.rseq_offset;
}

/* The user may know better. */
static bool aborts_are_lost(void)
{
#ifdef __aarch64__
	struct utsname name;

	return !os_options.backend_rseq && uname(&name) == 0 && release_loses_aborts(name.release);
#else
	return false;
#endif
}

static bool has_rseq(void)
{
	return &__rseq_size && &__rseq_offset && __rseq_size != 0;
}

/* Once more costs nothing. */
static bool register_membarrier(void)
{
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0);
}

void os_register_early(void)
{
	const char *options = secure_getenv("SHEAF_OPTIONS");
	OS_KEEP_ERRNO;

	/* A sandbox may not expect the system call, and the program may change the option until
	 * the first use: then it is made there. */
	if (has_rseq() && &__libc_single_threaded && __libc_single_threaded &&
	    !(options && strstr(options, "backend=trylock")))
		register_membarrier();
}

/* The reason why the rseq backend cannot run; NULL if it can. */
static const char *rseq_obstacle(bool rows_known)
{
	if (os_options.backend_trylock)
		return "backend=trylock is set";
	if (tsan_is_there())
		return "the thread sanitizer cannot see restartable sequences";
	if (os.cpu_beyond)
		return "there are CPU numbers beyond the library's tables";
	if (!rows_known)
		return "the kernel refuses sched_getaffinity";
	if (aborts_are_lost())
		return "on AArch64, Linux 6.19 and 7.0 before 7.0.14 may lose aborts";
#if defined(__x86_64__) || defined(__aarch64__)
	if (!has_rseq())
		return "the C library registers no restartable sequences";
	os.rseq_offset = __rseq_offset;
	if (*(volatile int32_t *)(rseq_area() + RSEQ_CPU_ID) < 0)
		return "the kernel refused to register restartable sequences";
	return register_membarrier() ? NULL : "the kernel refuses membarrier";
#else
	return "there are no sections for this processor";
#endif
}

static void choose_backend(bool rows_known)
{
	os.obstacle = rseq_obstacle(rows_known);
	os.backend = os.obstacle ? OS_BACKEND_TRYLOCK : OS_BACKEND_RSEQ;
	os.bulk_called = os.obstacle || os.counting || os_options.strict_numa;
}

/* Once it is known which nodes have CPUs. */
static void choose_rows(void)
{
	os.id_offset = RSEQ_CPU_ID;
	if (!os.obstacle && os.nr_cpu_nodes == 1 &&
	    getauxval(AT_RSEQ_FEATURE_SIZE) >= RSEQ_MM_CID_END &&
	    (os_options.index_mm_cid || (os.nr_cpus > FEW_CPUS && !os_options.index_cpu_id)))
		os.id_offset = RSEQ_MM_CID;
}

/*
 * Only caches with checks report their objects to a tool. U: the address sanitizer records no
 * stacks for memory that is not its own. If the library itself is built with the sanitizer, it is
 * the subject of the test.
 */
static void check_for_tools(void)
{
	if ((os.tools & TOOLS_OF_MEMORY) && !OS_ASAN && !*os_options.slab_debug)
		strcpy(os_options.slab_debug, os.tools & TOOL_ASAN ? "FZU" : "FZ");
}

/* More than the size of a thread's structure. */
#define MOST_THREAD_OFFSET 8192

/*
 * glibc stores each thread's number at a fixed distance from the thread pointer, and asks the
 * kernel to clear it when the thread ends. The kernel reports this address.
 */
static void find_thread_number(void)
{
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
	char *self = __builtin_thread_pointer();
	int *number = NULL;

	if (!prctl(PR_GET_TID_ADDRESS, &number, 0, 0, 0) && number &&
	    labs((char *)number - self) < MOST_THREAD_OFFSET && *number == syscall(SYS_gettid))
		os.thread_offset = (char *)number - self;
#endif
}

void os_init(void)
{
	OS_KEEP_ERRNO;
	bool rows_known;

	os_options_init();
	/* The countdown to the next sample is in the words that count events. */
	os.counting = os_options.stats || os_options.stats_json || os_options.stats_live ||
		      os_options_debug_has('S');
	os.tools = tools_find();
	check_for_tools();
	os.watched = (os.tools & (TOOL_TSAN | TOOL_MSAN)) || os_options.check_pop ||
		     os_options.check_free || os_options.init_on_alloc;
	os.page_size = (size_t)sysconf(_SC_PAGESIZE);
	os.memory = os_memory();
	rows_known = topology_find();
	choose_backend(rows_known);
	os_find_places();
	choose_rows();
	/* Other programs rarely need it, and a sandbox may not expect the system call. */
	if (*os_options.slab_debug)
		find_thread_number();
	os_stack_prepare();
}

bool os_registered(void)
{
	return os.backend != OS_BACKEND_RSEQ ||
	       *(volatile int32_t *)(rseq_area() + RSEQ_CPU_ID) >= 0;
}

/* A CPU that was not foreseen; see MACHINE-M2. */
static OS_COLD unsigned int shared_row(unsigned int cpu)
{
	if (!os.cpu_beyond)
		os_report_once_later(
			&unforeseen_cpu,
			"a thread runs on CPU %u, but CPU numbers ended at %u when the "
			"program started: several CPUs share sheaves",
			cpu, os.nr_cpus - 1);
	return cpu % os.nr_cpus;
}

static inline unsigned int known_row(unsigned int row)
{
	return os_likely(row < os.nr_cpus) ? row : shared_row(row);
}

/*
 * A word of the rseq area, if the kernel maintains it; otherwise the CPU number from the system
 * call.
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

/* The node that comes after the last one, among these. */
static int next_in_policy(unsigned long nodes)
{
	unsigned int n =
		os_fetch_add_relaxed(&interleaved, 1) % (unsigned int)__builtin_popcountl(nodes);

	while (n--)
		nodes &= nodes - 1;
	return __builtin_ctzl(nodes);
}

/* The nearest of these; OS_NO_NODE if that is what the thread would get anyway. */
static int nearest_of(unsigned long nodes, bool preferred)
{
	unsigned int here = os_node();
	int mine = os.memory_of_node[here] == OS_NO_NODE ? (int)here : os.memory_of_node[here];

	if (nodes >> mine & 1 && !preferred)
		return OS_NO_NODE;
	for (unsigned int i = 0; i < os.nr_nodes; i++)
		if (nodes >> os_near(here, i) & 1)
			return (int)os_near(here, i);
	return OS_NO_NODE;
}

int os_policy_node(void)
{
	unsigned long nodes[OS_MAX_NODES / (8 * sizeof(long)) + 1] = {0};
	OS_KEEP_ERRNO;
	int mode = 0, node = OS_NO_NODE;

	if (syscall(SYS_get_mempolicy, &mode, nodes, OS_MAX_NODES + 1, NULL, 0) == 0 && nodes[0]) {
		mode &= MPOL_MODE;
		node = mode == MPOL_INTERLEAVE || mode == MPOL_WEIGHTED_INTERLEAVE
			       ? next_in_policy(nodes[0])
			       : nearest_of(nodes[0], mode == MPOL_PREFERRED);
	}
	if (node >= (int)os.nr_nodes)
		node = OS_NO_NODE;
	return node;
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
	OS_KEEP_ERRNO;

	if (os.backend == OS_BACKEND_RSEQ)
		register_membarrier();
	if (!shared_after_fork()) {
		os_report_later(
			"statistics: no memory for the counters of a forked child, which counts "
			"nothing");
		os.counting = 0;
	}
}

uintptr_t os_self(void)
{
	return (uintptr_t)pthread_self();
}

uint32_t os_thread(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
	if (os.thread_offset)
		return *(volatile uint32_t *)((char *)__builtin_thread_pointer() +
					      os.thread_offset);
#endif
	return (uint32_t)syscall(SYS_gettid);
}

void os_sleep_briefly(void)
{
	OS_KEEP_ERRNO;
	const struct timespec moment = {.tv_nsec = 50000};

	syscall(SYS_nanosleep, &moment, NULL);
}

static struct timespec read_clock(clockid_t clock)
{
	OS_KEEP_ERRNO;
	struct timespec now = {0};

	clock_gettime(clock, &now);
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
	OS_KEEP_ERRNO;
	uint64_t bits;

	/* Not getrandom(3), which is a cancellation point: locks are held. */
	if (syscall(SYS_getrandom, &bits, sizeof(bits), GRND_NONBLOCK) != sizeof(bits))
		bits = (uintptr_t)&bits * fallback;
	return bits;
}
