/* SPDX-License-Identifier: MIT */
/*
 * Counts instructions by PTRACE_SINGLESTEP between two marker functions. The child is a fork of the
 * parent, so the parent knows their addresses. Each address is decoded once, as far as needed:
 * prefixes, opcode, and the memory operand of accesses by %fs.
 */
#include "count.h"

#include <stdio.h>

#ifdef __x86_64__
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define INSTRUCTION_MAX 15
#define RSEQ_AREA_SIZE	32
#define SEEN_SIZE	(1u << 16)

extern const ptrdiff_t __rseq_offset __attribute__((weak));

struct instruction {
	uint64_t address; /* 0: none */
	bool locked, fs;
	uint8_t bytes[INSTRUCTION_MAX];
};

/* Instructions met so far, by address; open addressing. */
static struct instruction seen[SEEN_SIZE];

static __attribute__((noinline)) void marker_begin(void)
{
	__asm__ volatile("nop # begin");
}

static __attribute__((noinline)) void marker_end(void)
{
	__asm__ volatile("nop; nop # end");
}

struct prefixes {
	bool lock, fs;
	uint8_t rex;
	const uint8_t *opcode;
};

static struct prefixes decode_prefixes(const uint8_t *byte)
{
	struct prefixes prefixes = {0};

	for (;; byte++) {
		if (*byte == 0xf0)
			prefixes.lock = true;
		else if (*byte == 0x64)
			prefixes.fs = true;
		else if (*byte != 0x66 && *byte != 0x67 && *byte != 0xf2 && *byte != 0xf3 &&
			 *byte != 0x65 && *byte != 0x2e && *byte != 0x36 && *byte != 0x3e &&
			 *byte != 0x26)
			break;
	}
	if ((*byte & 0xf0) == 0x40)
		prefixes.rex = *byte++;
	prefixes.opcode = byte;
	return prefixes;
}

static bool exchanges_memory(const uint8_t *opcode)
{
	return (opcode[0] == 0x86 || opcode[0] == 0x87) && opcode[1] < 0xc0;
}

static int64_t displacement(const uint8_t *bytes, unsigned int size)
{
	int32_t wide;

	if (size == 1)
		return (int8_t)*bytes;
	if (size == 0)
		return 0;
	memcpy(&wide, bytes, sizeof(wide));
	return wide;
}

static uint64_t register_value(const struct user_regs_struct *r, unsigned int number)
{
	const uint64_t values[16] = {r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp,
				     r->rsi, r->rdi, r->r8,  r->r9,  r->r10, r->r11,
				     r->r12, r->r13, r->r14, r->r15};

	return values[number & 15];
}

/* The offset from the thread pointer that an instruction with an %fs prefix accesses. */
static int64_t fs_offset(const struct instruction *instruction, const struct user_regs_struct *r)
{
	struct prefixes prefixes = decode_prefixes(instruction->bytes);
	const uint8_t *byte = prefixes.opcode;
	unsigned int mode, base, size;
	uint64_t offset = 0;

	if ((*byte & 0xfc) == 0xa0) {
		memcpy(&offset, byte + 1, sizeof(offset));
		return (int64_t)offset;
	}
	if (*byte == 0x0f)
		byte += byte[1] == 0x38 || byte[1] == 0x3a ? 2 : 1;
	byte++;
	mode = *byte >> 6;
	base = *byte & 7;
	size = mode == 1 ? 1 : mode == 2 ? 4 : 0;
	if (base == 4) {
		unsigned int index = (byte[1] >> 3 & 7) | (prefixes.rex & 2) << 2;

		byte++;
		base = *byte & 7;
		if (index != 4)
			offset += register_value(r, index) << (*byte >> 6);
	} else if (mode == 0 && base == 5) {
		return displacement(byte + 1, 4);
	}
	if (mode == 0 && base == 5)
		size = 4;
	else
		offset += register_value(r, base | (prefixes.rex & 1) << 3);
	return (int64_t)offset + displacement(byte + 1, size);
}

static bool in_rseq_area(int64_t offset)
{
	return &__rseq_offset && offset >= __rseq_offset && offset < __rseq_offset + RSEQ_AREA_SIZE;
}

static void read_instruction(pid_t child, struct instruction *instruction)
{
	struct iovec local = {instruction->bytes, INSTRUCTION_MAX};
	struct iovec remote = {(void *)(uintptr_t)instruction->address, INSTRUCTION_MAX};
	struct prefixes prefixes;

	/* Short at the end of the last mapped page: the remaining bytes stay zero. */
	process_vm_readv(child, &local, 1, &remote, 1, 0);
	prefixes = decode_prefixes(instruction->bytes);
	instruction->locked = prefixes.lock || exchanges_memory(prefixes.opcode);
	instruction->fs = prefixes.fs;
}

static const struct instruction *instruction_at(pid_t child, uint64_t address)
{
	uint32_t i = (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 48) % SEEN_SIZE;

	while (seen[i].address && seen[i].address != address)
		i = (i + 1) % SEEN_SIZE;
	if (!seen[i].address) {
		seen[i].address = address;
		read_instruction(child, &seen[i]);
	}
	return &seen[i];
}

static void count_one(pid_t child, const struct user_regs_struct *registers, struct counts *counts)
{
	const struct instruction *instruction = instruction_at(child, registers->rip);

	counts->instructions++;
	counts->locked += instruction->locked;
	if (!instruction->fs)
		return;
	if (in_rseq_area(fs_offset(instruction, registers)))
		counts->rseq++;
	else
		counts->tls++;
}

/* Step one instruction. Returns false if the child has ended. */
static bool step(pid_t child, struct user_regs_struct *registers)
{
	int status, signal = 0;

	for (;;) {
		if (ptrace(PTRACE_SINGLESTEP, child, 0, signal) || waitpid(child, &status, 0) < 0 ||
		    !WIFSTOPPED(status))
			return false;
		if (WSTOPSIG(status) == SIGTRAP)
			return !ptrace(PTRACE_GETREGS, child, 0, registers);
		signal = WSTOPSIG(status);
	}
}

static bool step_through(pid_t child, struct counts *counts)
{
	struct user_regs_struct registers;
	bool counting = false;

	while (step(child, &registers)) {
		if (registers.rip == (uintptr_t)marker_end)
			return true;
		if (registers.rip == (uintptr_t)marker_begin)
			counting = true;
		if (counting)
			count_one(child, &registers, counts);
	}
	fprintf(stderr, "count: the stepped process ended early\n");
	return false;
}

static _Noreturn void child_main(bool (*prepare)(void *), void (*run)(void *), void *data)
{
	if (!prepare(data))
		_exit(1);
	if (ptrace(PTRACE_TRACEME, 0, 0, 0)) {
		perror("count: ptrace");
		_exit(1);
	}
	raise(SIGSTOP);
	marker_begin();
	run(data);
	marker_end();
	_exit(0);
}

bool count_steps(bool (*prepare)(void *data), void (*run)(void *data), void *data,
		 struct counts *counts)
{
	bool counted = false;
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		child_main(prepare, run, data);
	if (child < 0) {
		perror("count: fork");
		return false;
	}
	*counts = (struct counts){0};
	if (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		counted = step_through(child, counts);
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
	}
	return counted;
}

#else

bool count_steps(bool (*prepare)(void *data), void (*run)(void *data), void *data,
		 struct counts *counts)
{
	(void)prepare, (void)run, (void)data, (void)counts;
	fprintf(stderr, "count: instructions are counted on x86-64 only\n");
	return false;
}

#endif
