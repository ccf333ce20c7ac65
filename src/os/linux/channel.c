/* SPDX-License-Identifier: MIT */
/* The control socket; see os/channel.h. */
#include "os/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "os/assert.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/report/report.h"
#include "os/should_fail.h"
#include "os/thread.h"

#define NAME	"libsheaf-control-%d"
#define BACKLOG 8

static struct {
	struct os_descriptor listens, asks, answer;
	uint32_t busy;	 /* a thread is looking */
	uint32_t looked; /* when: ms */
	uint32_t since;	 /* when the last asker came, or it began to listen */
	int cancel;	 /* the looking thread's state before */
	uint32_t reported;
	size_t length; /* of the request so far */
	char line[CHANNEL_LINE];
} channel = {.listens = {.file = -1}, .asks = {.file = -1}, .answer = {.file = -1}};

int32_t os_channel_is_on;

#define NOTE(percent, word)                                                                        \
	".pushsection .note.libsheaf, \"a\", " percent "note\n"                                    \
	"\t.balign 4\n"                                                                            \
	"\t.4byte 9, 8, " CHANNEL_NOTE "\n"                                                        \
	"\t.asciz \"libsheaf\"\n"                                                                  \
	"\t.balign 4\n"                                                                            \
	"\t.8byte " word " - .\n"                                                                  \
	"\t.popsection"

/* -flto may rename the word, and the compiler says how only in a function; without optimisation it
 * does not say. */
#ifndef __OPTIMIZE__
asm(NOTE("%", "os_channel_is_on"));
#endif

static bool is_woken(void)
{
	return os_load_relaxed(&os_channel_is_on) == CHANNEL_WOKEN;
}

/* The first byte of an abstract name is zero. */
static bool listen_at_name(int file)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, NAME, (int)getpid());
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);

	return os_may_fail(EACCES, bind, file, (struct sockaddr *)&name, size) == 0 &&
	       listen(file, BACKLOG) == 0;
}

static void begin_to_listen(void)
{
	int file =
		os_may_fail(EMFILE, socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	channel.since = os_now_ms();
	if (os_descriptor_keep(&channel.listens, file) && listen_at_name(channel.listens.file))
		return;
	error = errno;
	if (!is_woken()) /* otherwise the tool tells */
		os_report_once_later(
			&channel.reported,
			"SHEAF_OPTIONS=control: cannot create the socket (%s); option ignored",
			error == EADDRINUSE ? "another process uses its name" : strerror(error));
	os_descriptor_close(&channel.listens);
	os_store_relaxed(&os_channel_is_on, -error);
}

void os_channel_open(void)
{
	OS_KEEP_ERRNO;

#ifdef __OPTIMIZE__
#ifdef __aarch64__
	asm volatile(NOTE("%%", "%0") : : "S"(&os_channel_is_on));
#else
	asm volatile(NOTE("%%", "%c0") : : "i"(&os_channel_is_on));
#endif
#endif
	os_store_relaxed(&os_channel_is_on, CHANNEL_BY_OPTION);
	begin_to_listen();
}

void os_channel_after_fork(void)
{
	if (os_channel_is_on <= CHANNEL_OFF)
		return;
	if (is_woken())
		os_channel_is_on = CHANNEL_OFF;
	os_descriptor_close(&channel.listens);
	os_descriptor_close(&channel.asks);
	os_descriptor_close(&channel.answer);
	channel.busy = 0;
}

bool os_channel_enter(void)
{
	uint32_t now = os_now_ms(), before = os_load_relaxed(&channel.looked);

	if (now - before < CHANNEL_MS || !os_cmpxchg(&channel.looked, &before, now) ||
	    os_exchange(&channel.busy, 1))
		return false;
	channel.cancel = os_cancel_off();
	return true;
}

void os_channel_leave(void)
{
	int cancel = channel.cancel;

	os_assert(os_peek(&channel.busy)); /* CHANNEL-N1 */
	os_store_release(&channel.busy, 0);
	os_cancel_restore(cancel);
}

/* Answer without a file, and close the connection. */
static void answer_line(const char *line)
{
	send(channel.asks.file, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
	os_descriptor_close(&channel.asks);
}

/* A user that has no number in this process's namespace has this one. */
static uid_t nobodys_number(void)
{
	char text[32];

	return os_file_read("/proc/sys/kernel/overflowuid", text, sizeof(text)) > 0
		       ? (uid_t)strtoul(text, NULL, 10)
		       : 65534;
}

static bool may_ask(uid_t who)
{
	return !who || (who == geteuid() && who != nobodys_number());
}

/* Accept the next asker, if there is one that may ask. */
static bool take_asker(void)
{
	struct ucred who = {0, (uid_t)-1, (gid_t)-1};
	socklen_t size = sizeof(who);
	int file = os_may_fail(EMFILE, accept4, channel.listens.file, NULL, NULL,
			       SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (!os_descriptor_keep(&channel.asks, file))
		return false;
	channel.length = 0;
	if (getsockopt(channel.asks.file, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
	    may_ask(who.uid)) {
		channel.since = os_now_ms();
		return true;
	}
	answer_line(who.uid == nobodys_number()
			    ? "error it belongs to another user, or you have no number in its user "
			      "namespace: ask from there\n"
			    : "error it belongs to another user\n");
	return false;
}

static void sleep_if_unused(void)
{
	if (is_woken() && os_now_ms() - channel.since > CHANNEL_WOKEN_MS) {
		os_descriptor_close(&channel.listens);
		os_store_relaxed(&os_channel_is_on, CHANNEL_OFF);
	}
}

/* Read more of the request; true: the line is complete. */
static bool read_line(void)
{
	ssize_t length = recv(channel.asks.file, channel.line + channel.length,
			      sizeof(channel.line) - channel.length, MSG_DONTWAIT);
	char *end;

	if (length > 0)
		channel.length += (size_t)length;
	end = memchr(channel.line, '\n', channel.length);
	if (end) {
		*end = '\0';
		return true;
	}
	if (channel.length == sizeof(channel.line))
		answer_line("error the line is too long\n");
	else if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR) ||
		 os_now_ms() - channel.since > CHANNEL_PATIENCE)
		os_descriptor_close(&channel.asks);
	return false;
}

char *os_channel_request(void)
{
	os_assert(os_peek(&channel.busy) &&
		  channel.length <= sizeof(channel.line)); /* CHANNEL-N1 */
	if (!os_descriptor_is_ours(&channel.asks)) {
		channel.asks.file = -1;
		if (!os_descriptor_is_ours(&channel.listens)) {
			channel.listens.file = -1;
			begin_to_listen();
		}
		if (channel.listens.file < 0 || !take_asker()) {
			sleep_if_unused();
			return NULL;
		}
	}
	if (!read_line())
		return NULL;
	return channel.line;
}

const struct os_descriptor *os_channel_file(void)
{
	if (os_file_longest() < SIZE_MAX ||
	    !os_descriptor_keep(&channel.answer,
				os_may_fail(EMFILE, memfd_create, "libsheaf-answer", MFD_CLOEXEC)))
		return NULL;
	return &channel.answer;
}

void os_channel_answer(const char *error)
{
	const char *status = error ? "error " : "ok";
	struct iovec parts[] = {{(void *)(uintptr_t)status, strlen(status)},
				{(void *)(uintptr_t)error, error ? strlen(error) : 0},
				{"\n", 1}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct cmsghdr *head;

	if (os_descriptor_is_ours(&channel.answer)) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &channel.answer.file, sizeof(int));
	}
	if (os_descriptor_is_ours(&channel.asks))
		sendmsg(channel.asks.file, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	os_descriptor_close(&channel.asks);
	os_descriptor_close(&channel.answer);
}
