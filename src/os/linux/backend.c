/* SPDX-License-Identifier: MIT */
/*
 * The backend: restartable sequences where they are available, else try-locks; and the row of the
 * CPU on which a thread runs.
 *
 * rseq: the library uses only the area that glibc (2.35 or later) registered, and writes only its
 * field rseq_cs. glibc's symbols are weak, so that the library also loads with older versions.
 * mm_cid is available only if the kernel says that it fills that much of the area.
 *
 * On AArch64, Linux 6.19 and 7.0 to 7.0.13 may lose an abort: a thread that was preempted inside a
 * restartable section then continues in it, on another CPU. 7.1 and 7.0.14 are fixed, 6.19 never
 * was. A section cannot detect that, so the version decides. A distribution's kernel often does not
 * say which 7.0 it is ("7.0.0-14-generic"); it counts as an early one, as do release candidates of
 * 7.1. A release that is no version counts as a good one.
 *
 * Callers: machine.c for the choice; os/machine.h says who calls the rest.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <linux/rseq.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

#include "os/atomic.h"
#include "os/linux/linux.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/should_fail.h"
#include "os/tsan.h"

#define AT_RSEQ_FEATURE_SIZE 27
#define RSEQ_MM_CID	     24
#define RSEQ_MM_CID_END	     28
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

static uint32_t membarrier_refused, unforeseen_cpu; /* reported */

/* --- the kernel's release --------------------------------------------------------------------- */

/* The number here, and whatever `text` points to behind it and one dot; -1 if there is none. */
static long next_number(const char **text)
{
	char *end;
	long number;

	if (**text < '0' || **text > '9')
		return -1;
	number = strtol(*text, &end, 10);
	*text = end + (*end == '.');
	return number;
}

/* "7.1.0-rc3", "7.1-rc3+", "7.1.0-0.rc3.260501.fc45", "7.1.0-070100rc3-generic" */
static bool is_candidate(const char *rest)
{
	while ((rest = strstr(rest, "rc")) != NULL) {
		rest += 2;
		if (*rest >= '0' && *rest <= '9')
			return true;
	}
	return false;
}

bool release_loses_aborts(const char *release)
{
	long major = next_number(&release), minor = next_number(&release),
	     patch = next_number(&release);

	if (major == 6)
		return minor == 19;
	if (major != 7)
		return false;
	return (minor <= 0 && patch < 14) || (minor == 1 && patch <= 0 && is_candidate(release));
}

/* --- the choice ------------------------------------------------------------------------------- */

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
	return !os_syscall_may_fail(EPERM, membarrier,
				    MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0);
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

void backend_choose(bool rows_known)
{
	os.obstacle = rseq_obstacle(rows_known);
	os.backend = os.obstacle ? OS_BACKEND_TRYLOCK : OS_BACKEND_RSEQ;
	os.bulk_called = os.obstacle || os.counting || os_options.strict_numa;
}

/* Once it is known which nodes have CPUs. */
void backend_choose_rows(void)
{
	os.id_offset = RSEQ_CPU_ID;
	if (!os.obstacle && os.nr_cpu_nodes == 1 &&
	    getauxval(AT_RSEQ_FEATURE_SIZE) >= RSEQ_MM_CID_END &&
	    (os_options.index_mm_cid || (os.nr_cpus > FEW_CPUS && !os_options.index_cpu_id)))
		os.id_offset = RSEQ_MM_CID;
}

/* --- its services ----------------------------------------------------------------------------- */

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

bool os_membarrier(void)
{
	OS_KEEP_ERRNO;
	bool done = true;

	if (os.backend == OS_BACKEND_RSEQ)
		done = os_syscall_may_fail(EPERM, membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ,
					   0, 0) == 0;
	else
		os_fence();
	if (!done)
		os_report_once_later(
			&membarrier_refused,
			"the kernel now refuses membarrier: shrink and barriers reach only this "
			"CPU's sheaves. Allow this system call");
	return done;
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
