/* SPDX-License-Identifier: MIT */
/*
 * The walker: aborts every section at each of its instructions. The section must then have happened
 * once or not at all, exactly like the section in C.
 *
 * A first child, whose rseq area is unregistered, stops at each section's first instruction and is
 * single-stepped from there. This shows which instructions of which section a call executes. (With
 * a registered area, the kernel would abort the section at each step.)
 *
 * A second child repeats the same call, each time with a breakpoint at another of these
 * instructions. The kernel sees a thread that stopped inside a section, and continues at its abort
 * handler. A breakpoint stays for one stop; or, at a section's first instruction, for two or more,
 * so that each later try is the one that succeeds; or for the whole call: then the call must give
 * up and store nothing.
 *
 * The kernel also aborts a section when it preempts the child or moves it to another CPU. Then the
 * child may not reach an instruction, and a call may give up instead of trying again. The outcome
 * must be right even so, but it shows nothing about our abort: the call is run once more.
 *
 * Exit status 77: no ptrace, no rseq, or a machine whose instructions are not known here.
 */
#include "walk.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/clock.h"
#include "kit/process.h"
#include "os/machine.h"
#include "os/section.h"

#define SKIP 77

/*
 * A breakpoint: the instruction in C, its bytes, how far it moves the program counter, and how far
 * a debugger must move it to continue behind one.
 */
#ifdef __x86_64__
#define RSEQ_SIGNATURE 0x53053053u
#define PC	       rip
#define TRAP	       "int3"
typedef unsigned char code_t;
#define BREAKPOINT ((code_t)0xcc)
#define TRAP_MOVES 1
#define TRAP_STAYS 0
#elif defined(__aarch64__)
#define RSEQ_SIGNATURE 0xd428bc00u
#define PC	       pc
#define TRAP	       "brk #0"
typedef uint32_t code_t;
#define BREAKPOINT     ((code_t)0xd4200000)
#define TRAP_MOVES     0
#define TRAP_STAYS     4
#endif

#ifdef BREAKPOINT

enum {
	MAX_ADDRESSES = 256, /* executed in one call */
	MAX_SEEN = 4096,
	MAX_STEPS = 10000,
	MAX_STOPS = 200, /* at a breakpoint that stays */
	ALWAYS = 4,	 /* aborts: as many as a section has tries, RSEQ_TRIES */
	MAX_TRIES = 100	 /* of a call that the kernel aborts as well */
};

struct descriptor {
	uint32_t version, flags;
	uint64_t start, length, abort;
} __attribute__((aligned(32)));

extern const struct descriptor __start___rseq_cs[], __stop___rseq_cs[];
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static uint64_t path[MAX_ADDRESSES];
static unsigned int path_length;
static uint64_t seen[MAX_SEEN];
static unsigned int nr_seen;
static unsigned long nr_aborts, nr_retries;
static pid_t stepper, walker;
static int stepper_memory, walker_memory;

static void end(int status)
{
	if (stepper > 0)
		kill(stepper, SIGKILL);
	if (walker > 0)
		kill(walker, SIGKILL);
	exit(status);
}

static void fail(const char *why, uint64_t address)
{
	fprintf(stderr,
		"walk: %s: call %d n %u, main %u%s, spare %u%s, stop %u%s, at %#llx (section + "
		"%lld)\n",
		why, (int)scene->call, scene->n, scene->main_size,
		scene->bootstrap ? " (bootstrap)" : "", scene->spare_size,
		scene->no_spare ? " (none)" : "", scene->stop, scene->closed ? ", closed" : "",
		(unsigned long long)address, (long long)(path_length ? address - path[0] : 0));
	end(1);
}

/* --- the children ------------------------------------------------------------------------------
 */

static bool unregister(void)
{
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	if (syscall(SYS_rseq, area, 32, 1, RSEQ_SIGNATURE) &&
	    syscall(SYS_rseq, area, __rseq_size, 1, RSEQ_SIGNATURE))
		return false;
	/* What the sections read: a registered thread on CPU 0. */
	*(volatile uint32_t *)(area + 4) = 0;
	*(volatile uint32_t *)(area + 24) = 0;
	return true;
}

static void child(bool registered)
{
	if (ptrace(PTRACE_TRACEME, 0, 0, 0) || (!registered && !unregister()))
		_exit(SKIP);
	for (;;) {
		*(volatile uint32_t *)&scene->idle = 1;
		__asm__ volatile(TRAP::: "memory");
		*(volatile uint32_t *)&scene->idle = 0;
		scene_run();
	}
}

static struct user_regs_struct registers(pid_t pid)
{
	struct user_regs_struct regs;
	struct iovec all = {&regs, sizeof(regs)};

	if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &all))
		fail("no registers", 0);
	return regs;
}

static void set_pc(pid_t pid, uint64_t pc)
{
	struct user_regs_struct regs = registers(pid);
	struct iovec all = {&regs, sizeof(regs)};

	regs.PC = pc;
	if (ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &all))
		fail("no registers", pc);
}

/* Wait for the child's next stop; where it will continue. */
static uint64_t wait_stop(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		fail("lost the child", 0);
	if (WIFEXITED(status))
		end(WEXITSTATUS(status));
	if (WIFSIGNALED(status) || WSTOPSIG(status) != SIGTRAP) {
		fprintf(stderr, "walk: signal %d\n",
			WIFSIGNALED(status) ? WTERMSIG(status) : WSTOPSIG(status));
		fail("the child was killed", 0);
	}
	return registers(pid).PC;
}

/* As compiled: the children have the same code at the same place. */
static code_t code_at(uint64_t address)
{
	return *(const code_t *)address;
}

static void poke(int memory, uint64_t address, code_t code)
{
	if (pwrite(memory, &code, sizeof(code), (off_t)address) != sizeof(code))
		fail("cannot place a breakpoint", address);
}

/* True if the child is at the trap between two calls. It then continues behind that. */
static bool is_idle(pid_t pid, uint64_t pc)
{
	if (!*(volatile uint32_t *)&scene->idle || code_at(pc - TRAP_MOVES) != BREAKPOINT)
		return false;
	if (TRAP_STAYS)
		set_pc(pid, pc + TRAP_STAYS);
	return true;
}

static pid_t start(bool registered)
{
	pid_t pid = fork();

	if (pid == 0)
		child(registered);
	if (pid < 0)
		end(SKIP);
	if (!is_idle(pid, wait_stop(pid)))
		fail("the child does not begin", 0);
	return pid;
}

/* --- which instructions a call executes --------------------------------------------------------
 */

/* The section that contains this address or ends there. */
static const struct descriptor *section_at(uint64_t address)
{
	for (const struct descriptor *d = __start___rseq_cs; d < __stop___rseq_cs; d++)
		if (address >= d->start && address <= d->start + d->length)
			return d;
	return NULL;
}

static bool is_first(uint64_t address)
{
	const struct descriptor *section = section_at(address);

	return section && address == section->start;
}

static void remember(uint64_t address)
{
	unsigned int i;

	for (i = 0; i < path_length; i++)
		if (path[i] == address)
			return;
	if (path_length == MAX_ADDRESSES)
		fail("too many instructions", address);
	path[path_length++] = address;
	for (i = 0; i < nr_seen; i++)
		if (seen[i] == address)
			return;
	if (nr_seen < MAX_SEEN)
		seen[nr_seen++] = address;
}

static void stop_at_all(void)
{
	for (const struct descriptor *d = __start___rseq_cs; d < __stop___rseq_cs; d++)
		poke(stepper_memory, d->start, BREAKPOINT);
}

/* One instruction in a section; where the next one is. */
static uint64_t step(uint64_t pc)
{
	uint64_t next;

	if (is_first(pc))
		poke(stepper_memory, pc, code_at(pc));
	ptrace(PTRACE_SINGLESTEP, stepper, 0, 0);
	next = wait_stop(stepper);
	if (is_first(pc))
		poke(stepper_memory, pc, BREAKPOINT);
	return next;
}

static void step_through(void)
{
	uint64_t pc = 0;

	path_length = 0;
	scene->check = false; /* it is long, and has no sections */
	*(volatile uint32_t *)&scene->idle = 0;
	for (int steps = 0; steps < MAX_STEPS; steps++) {
		if (section_at(pc)) {
			remember(pc);
			pc = step(pc);
			continue;
		}
		ptrace(PTRACE_CONT, stepper, 0, 0);
		pc = wait_stop(stepper);
		if (is_idle(stepper, pc))
			return;
		pc -= TRAP_MOVES;
		if (TRAP_MOVES)
			set_pc(stepper, pc);
	}
	fail("a call does not end", pc);
}

/* --- aborts ------------------------------------------------------------------------------------
 */

static bool is_cached(void)
{
	return scene->call >= WALK_NR_SECTIONS;
}

/* Stop at the first instruction of every section but this one; NULL: of none. */
static void stop_at_others(const struct descriptor *section)
{
	static const struct descriptor *now;
	const struct descriptor *before = now;

	now = section;
	for (const struct descriptor *d = __start___rseq_cs; d < __stop___rseq_cs; d++) {
		bool stopped = before && d->start != before->start;
		bool stop = section && d->start != section->start;

		if (stop != stopped)
			poke(walker_memory, d->start, stop ? BREAKPOINT : code_at(d->start));
	}
}

/*
 * Run the call once with a breakpoint at the address, for at most `aborts` stops, and return their
 * number. If there may be several, a call on a cache also meets one in every other section, and
 * continues there after an abort.
 */
static unsigned int run_with_breakpoint(uint64_t address, unsigned int aborts,
					const struct walk_view *then)
{
	unsigned int stops = 0;
	struct walk_view view;

	scene->check = true;
	stop_at_others(aborts > 1 && is_cached() ? section_at(address) : NULL);
	poke(walker_memory, address, BREAKPOINT);
	*(volatile uint32_t *)&scene->idle = 0;
	for (;;) {
		uint64_t pc;

		ptrace(PTRACE_CONT, walker, 0, 0);
		pc = wait_stop(walker);
		if (is_idle(walker, pc))
			break;
		scene_view(&view);
		if (memcmp(&view, then, sizeof(view)))
			fail("the state at this instruction is wrong", address);
		if (++stops == MAX_STOPS)
			fail("a call that is aborted always does not end", address);
		if (stops == aborts && aborts != ALWAYS) {
			stop_at_others(NULL);
			poke(walker_memory, address, code_at(address));
		}
		if (TRAP_MOVES)
			set_pc(walker, pc - TRAP_MOVES);
	}
	poke(walker_memory, address, code_at(address));
	return stops;
}

static bool outcome_is(const struct walk_result *result, const struct walk_view *view)
{
	struct walk_view now;

	scene_view(&now);
	return !memcmp(&now, view, sizeof(now)) && !memcmp(&scene->result, result, sizeof(*result));
}

/* What a call did, and the state visible before and after it. */
struct outcome {
	struct walk_result result;
	struct walk_view before, after;
};

/* True if the outcome is that which the abort must lead to, and false if nothing was done at all.
 */
static bool try_abort(uint64_t address, unsigned int aborts, bool committed,
		      const struct outcome *of)
{
	static const char *const wrong[] = {
		[1] = "aborted once, with a wrong outcome",
		[2] = "aborted twice, with a wrong outcome",
		[3] = "aborted three times, with a wrong outcome",
		[ALWAYS] = "aborted always, with a wrong outcome",
	};
	static const struct walk_result nothing;
	bool cached = is_cached();
	bool done = cached || committed || (aborts < ALWAYS && scene_retries()), met;

	scene_set();
	met = run_with_breakpoint(address, aborts, committed ? &of->after : &of->before) > 0;
	/* A cache's own state moves on from call to call: it may come another way. */
	if ((met || cached) &&
	    outcome_is(done ? &of->result : &nothing, done ? &of->after : &of->before))
		return true;
	if (!outcome_is(&nothing, &of->before) && !(done && outcome_is(&of->result, &of->after)))
		fail(wrong[aborts], address);
	return false;
}

static void abort_at(uint64_t address, unsigned int aborts, const struct outcome *of)
{
	const struct descriptor *section = section_at(address);
	bool committed = address == section->start + section->length;
	unsigned int tries = 1;

	if (committed && aborts > 1)
		return;
	while (!try_abort(address, aborts, committed, of))
		if (tries++ == MAX_TRIES)
			fail("an instruction is not met again, or a call not tried again", address);
	nr_retries += tries - 1;
	nr_aborts += !committed;
}

static void walk_scene(void)
{
	struct outcome of;
	uint64_t mine[MAX_ADDRESSES];

	scene_set();
	scene_view(&of.before);
	scene_run_in_c();
	scene_view(&of.after);
	of.result = scene->result;
	scene_set();
	step_through();
	if (!outcome_is(&of.result, &of.after))
		fail("assembly and C differ", 0);
	if (!path_length)
		fail("no section was entered", 0);
	memcpy(mine, path, sizeof(mine));
	for (unsigned int aborts = 1; aborts <= ALWAYS; aborts++)
		for (unsigned int i = 0; i < path_length; i++)
			if (aborts == 1 || aborts == ALWAYS || is_first(mine[i]))
				abort_at(mine[i], aborts, &of);
}

static int memory_of(pid_t pid)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/%d/mem", (int)pid);
	return open(name, O_RDWR | O_CLOEXEC);
}

int main(void)
{
	clock_stands = true; /* no call does a round of housekeeping */
	unsigned int sections = 0;

	if (!scene_make())
		return 1;
	if (os.backend != OS_BACKEND_RSEQ)
		return SKIP;
	pin(0); /* with the children: they take turns, and need not wake another CPU */
	stepper = start(false);
	walker = start(true);
	stepper_memory = memory_of(stepper);
	walker_memory = memory_of(walker);
	stop_at_all();
	memset(scene, 0, sizeof(*scene));
	do
		walk_scene();
	while (scene_next());
	for (const struct descriptor *d = __start___rseq_cs; d < __stop___rseq_cs; d++)
		for (unsigned int i = 0; i < nr_seen; i++)
			if (seen[i] == d->start) {
				sections++;
				break;
			}
	printf("walked %u sections of %td, %u instructions, %lu aborts, %lu once more\n", sections,
	       __stop___rseq_cs - __start___rseq_cs, nr_seen, nr_aborts, nr_retries);
	if (sections < scene_least_sections() || !nr_aborts) {
		fprintf(stderr, "walk: too few sections were met\n");
		end(1);
	}
	end(0);
}

#else

int main(void)
{
	return SKIP;
}

#endif
