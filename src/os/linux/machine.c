/* SPDX-License-Identifier: MIT */
/* What the machine is, at the first use; and small services of the kernel: sleep, clocks, random
 * bits. */
#include "os/machine.h"

#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/memory.h"
#include "os/memory_tools.h"
#include "os/options/options.h"
#include "os/should_fail.h"
#include "os/unwind/stack.h"

struct os_machine os OS_LARGE;

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

void os_init(void)
{
	OS_KEEP_ERRNO;
	bool rows_known;
	uintptr_t ip;

	os_options_init();
	os_should_fail_begin();
	os.counting = os_options.stats || os_options.stats_json || os_options.stats_live;
	os.tools = tools_find();
	check_for_tools();
	os.watched = (os.tools & (TOOL_TSAN | TOOL_MSAN)) || os_options.check_pop ||
		     os_options.check_free || os_options.init_on_alloc;
	os.page_size = (size_t)getpagesize();
	os.memory = SIZE_MAX;
	rows_known = topology_find();
	backend_choose(rows_known);
	os_find_places();
	backend_choose_rows();
	/* Other programs rarely need these now, and a sandbox may not expect the system calls. */
	if (*os_options.slab_debug)
		thread_find_number();
	if (*os_options.slab_debug || os_options.verbose)
		os_memory_refresh();
	/* The first walk asks libgcc, which may then call malloc(): not in a signal handler. */
	if (os_is_static())
		os_stack_walk(&ip, 1);
}

void os_forget_nodes(void)
{
	os.nr_nodes = 1;
	memset(os.node_of_row, 0, sizeof(os.node_of_row));
	os_find_places();
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
