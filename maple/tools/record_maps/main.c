/* SPDX-License-Identifier: MIT */
/*
 * Records the address-space history of a program: `sheaf record-maps` runs this. See record.h.
 *
 * The program runs as it would alone: its files, terminal, signals and process group are those that
 * we were started with. ^C and ^\ reach it from the terminal, and are ignored here; SIGTERM and
 * SIGHUP are passed on.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "record.h"

#define WORD_MAX     400  /* letters that are kept of a word of the command */
#define EXACT_RANGES 1024 /* up to here the peak is exact, above it is rounded to a sixteenth */

static const char *const kind_names[KINDS] = {
	[MMAP] = "mmap", [MUNMAP] = "munmap", [MPROTECT] = "mprotect",
	[BRK] = "brk",	 [MREMAP] = "mremap", [DONTNEED] = "dontneed",
	[FORK] = "fork", [EXEC] = "exec",     [EXIT] = "exit"};

static struct {
	const char *path;
	FILE *out;
	bool fresh; /* the file did not exist before */
	char **command;
	int error;
	uint64_t lines, made[KINDS], failed[KINDS];
	size_t peak;
	struct counted {
		size_t ranges, calls; /* at the last count; calls since, up to two more each */
	} * counted;
	unsigned int nr_counted;
	pid_t program;
} recording;

void warn(const char *format, ...)
{
	va_list words;

	fprintf(stderr, "sheaf: record-maps: ");
	va_start(words, format);
	vfprintf(stderr, format, words);
	va_end(words);
	fprintf(stderr, "\n");
}

void no_memory(void)
{
	warn("out of memory; the program continues without being recorded");
	_exit(OWN_FAILURE);
}

uint64_t page_size(void)
{
	static uint64_t size;

	if (!size)
		size = (uint64_t)sysconf(_SC_PAGESIZE);
	return size;
}

void put(const char *format, ...)
{
	va_list words;

	va_start(words, format);
	errno = 0;
	if ((vfprintf(recording.out, format, words) < 0 || putc('\n', recording.out) == EOF) &&
	    !recording.error)
		recording.error = errno ? errno : EIO;
	va_end(words);
	recording.lines++;
}

void count_call(enum kind kind, bool failed)
{
	recording.made[kind]++;
	recording.failed[kind] += failed;
}

/* Listing many ranges takes long, so count them only if the peak may have been exceeded. */
void count_ranges(pid_t tid, unsigned int space)
{
	size_t slack = recording.peak > EXACT_RANGES ? recording.peak / 16 : 0;
	struct counted *counted;

	if (space >= recording.nr_counted) {
		size_t room = 2 * (size_t)space + 16;
		struct counted *larger =
			realloc(recording.counted, room * sizeof(*recording.counted));

		if (!larger)
			return;
		memset(larger + recording.nr_counted, 0xff,
		       (room - recording.nr_counted) * sizeof(*larger));
		recording.counted = larger;
		recording.nr_counted = (unsigned int)room;
	}
	counted = &recording.counted[space];
	if (counted->ranges != SIZE_MAX &&
	    counted->ranges + 2 * ++counted->calls <= recording.peak + slack)
		return;
	*counted = (struct counted){nr_ranges(tid), 0};
	if (counted->ranges > recording.peak)
		recording.peak = counted->ranges;
}

/* Index of the program's name in argv. The command `sheaf` has checked what users write. */
static int parse(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "+o:")) == 'o')
		recording.path = optarg;
	if (option == -1 && optind < argc)
		return optind;
	fprintf(stderr, "usage: record-maps [-o FILE] PROGRAM [ARGUMENT]...\n");
	exit(2);
}

/* A user's file is overwritten only if it was named, and only once the program has started. */
static void open_output(const char *program)
{
	static char own[NAME_ROOM + sizeof(".maps")];
	bool named = recording.path;
	int file;

	if (!named) {
		short_name(own, program);
		strcat(own, ".maps");
		recording.path = own;
	}
	file = open(recording.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	recording.fresh = file >= 0;
	if (file < 0 && errno == EEXIST && named)
		file = open(recording.path, O_WRONLY | O_CLOEXEC);
	recording.out = file < 0 ? NULL : fdopen(file, "w");
	if (!recording.out) {
		warn("%s: %s%s", recording.path, strerror(errno),
		     errno == EEXIST ? "; name a file with -o" : "");
		exit(OWN_FAILURE);
	}
}

static void remove_fresh(void)
{
	if (recording.fresh)
		unlink(recording.path);
}

/* A word of the command without directories: what follows the last slash that is not at its end. */
static void put_word(const char *word)
{
	size_t end = strlen(word), start, length;

	while (end && word[end - 1] == '/')
		end--;
	for (start = end; start && word[start - 1] != '/';)
		start--;
	length = end - start < WORD_MAX ? end - start : WORD_MAX;
	putc(' ', recording.out);
	if (length && strcspn(word + start, " '\"$\\;|&<>(){}*?\n") >= length) {
		fprintf(recording.out, "%.*s", (int)length, word + start);
		return;
	}
	putc('\'', recording.out);
	for (const char *at = word + start; length; at++, length--)
		if (*at == '\'')
			fputs("'\\''", recording.out);
		else
			putc(*at == '\n' ? ' ' : *at, recording.out);
	putc('\'', recording.out);
}

void put_head(void)
{
	struct utsname machine;
	struct stat file;

	if (!fstat(fileno(recording.out), &file) && S_ISREG(file.st_mode) &&
	    ftruncate(fileno(recording.out), 0))
		recording.error = errno;
	uname(&machine);
	put("sheaf-maps %d page %" PRIu64 " machine %s", VERSION, page_size(), machine.machine);
	fprintf(recording.out, "command");
	for (char **word = recording.command; *word; word++)
		put_word(*word);
	put("%s", "");
}

static void on_signal(int signal)
{
	int error = errno;

	if (!trace_enough() && (signal == SIGTERM || signal == SIGHUP))
		kill(recording.program, signal);
	errno = error;
}

/* The program becomes our child, and waits at `gate` until it is traced. */
static _Noreturn void become(char **command, int gate, int answer)
{
	char byte;
	int error;

	if (read(gate, &byte, 1) != 1)
		_exit(OWN_FAILURE);
	execvp(command[0], command);
	error = errno;
	if (write(answer, &error, sizeof(error)) < 0)
		_exit(OWN_FAILURE);
	_exit(error == ENOENT ? NOT_FOUND : CANNOT_START);
}

/* Start the program. Returns the end of a pipe on which the child reports why it could not execute
 * it. */
static int start(char **command)
{
	int gate[2], answer[2];
	static const int watched[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};

	if (pipe2(gate, O_CLOEXEC) || pipe2(answer, O_CLOEXEC) ||
	    (recording.program = fork()) < 0) {
		warn("cannot start a process: %s", strerror(errno));
		exit(OWN_FAILURE);
	}
	if (!recording.program) {
		close(gate[1]);
		become(command, gate[0], answer[1]);
	}
	for (size_t i = 0; i < sizeof(watched) / sizeof(*watched); i++)
		sigaction(watched[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
	signal(SIGTSTP, SIG_IGN);
	close(answer[1]);
	if (trace_begin(recording.program)) {
		warn("no process may be traced here (%s): a tracer runs already, or a container or "
		     "the "
		     "system's security settings forbid ptrace",
		     strerror(errno));
		close(gate[1]);
		remove_fresh();
		exit(OWN_FAILURE);
	}
	if (write(gate[1], "", 1) < 0)
		warn("%s", strerror(errno));
	close(gate[0]);
	close(gate[1]);
	return answer[0];
}

static int close_output(void)
{
	fprintf(recording.out, "done %" PRIu64 "\n", recording.lines);
	errno = 0;
	if ((fclose(recording.out) || recording.error)) {
		warn("%s: not complete: %s", recording.path,
		     strerror(recording.error ? recording.error : errno));
		return -1;
	}
	return 0;
}

static void print_summary(void)
{
	unsigned int processes = trace_processes(), spaces = trace_spaces();

	fprintf(stderr,
		"sheaf: record-maps: %s: %u process%s, %u address space%s, at most %zu ranges in "
		"one;",
		recording.path, processes, processes == 1 ? "" : "es", spaces,
		spaces == 1 ? "" : "s", recording.peak);
	for (int kind = 0; kind < KINDS; kind++) {
		if (!recording.made[kind])
			continue;
		fprintf(stderr, " %s %" PRIu64, kind_names[kind], recording.made[kind]);
		if (recording.failed[kind])
			fprintf(stderr, " (%" PRIu64 " failed)", recording.failed[kind]);
	}
	fprintf(stderr, "\n");
}

/* End as the program did: by the same signal, or with the same status. */
static _Noreturn void end_as(int status)
{
	if (WIFSIGNALED(status)) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
		exit(128 + WTERMSIG(status));
	}
	exit(WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	int first = parse(argc, argv), answer, status, why;

	open_output(argv[first]);
	recording.command = argv + first;
	answer = start(recording.command);
	status = trace_all();
	if (!trace_executed() && read(answer, &why, sizeof(why)) == sizeof(why)) {
		warn("%s: %s", argv[first], why == ENOENT ? "no such program" : strerror(why));
		remove_fresh();
		exit(why == ENOENT ? NOT_FOUND : CANNOT_START);
	}
	if (close_output())
		exit(OWN_FAILURE);
	print_summary();
	end_as(status);
}
