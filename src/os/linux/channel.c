/* SPDX-License-Identifier: MIT */
/* The control socket; see os/channel.h. */
#include "os/channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "os/atomic.h"
#include "os/high.h"
#include "os/machine.h"
#include "os/report.h"

#define NAME	"libsheaf-control-%d"
#define BACKLOG 8

/* A descriptor of the library, and the file it refers to. */
struct ours {
	int file; /* -1: none */
	dev_t device;
	ino_t inode;
};

static struct {
	struct ours listens, asks;
	uint32_t busy;	 /* a thread is looking */
	uint32_t looked; /* when: ms */
	uint32_t since;	 /* when the asker came */
	int cancel;	 /* the looking thread's state before */
	uint32_t told;
	size_t length; /* of the request so far */
	char line[CHANNEL_LINE];
} channel = {.listens = {.file = -1}, .asks = {.file = -1}};

uint32_t os_channel_is_on;

static bool keep(struct ours *ours, int file)
{
	struct stat now;

	ours->file = file < 0 ? -1 : os_high(file);
	if (ours->file < 0 || fstat(ours->file, &now))
		return false;
	ours->device = now.st_dev;
	ours->inode = now.st_ino;
	return true;
}

static bool is_still(const struct ours *ours)
{
	struct stat now;

	return ours->file >= 0 && fstat(ours->file, &now) == 0 && now.st_dev == ours->device &&
	       now.st_ino == ours->inode;
}

static void drop(struct ours *ours)
{
	if (is_still(ours))
		syscall(SYS_close, ours->file);
	ours->file = -1;
}

/* The first byte of an abstract name is zero. */
static bool listen_at_name(int file)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, NAME, (int)getpid());
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);

	return bind(file, (struct sockaddr *)&name, size) == 0 && listen(file, BACKLOG) == 0;
}

static void begin_to_listen(void)
{
	int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (keep(&channel.listens, file) && listen_at_name(channel.listens.file))
		return;
	os_report_once_later(&channel.told,
			     "SHEAF_OPTIONS=control: cannot create the socket (%s); option ignored",
			     errno == EADDRINUSE ? "another process uses its name"
						 : strerror(errno));
	drop(&channel.listens);
	os_store_relaxed(&os_channel_is_on, 0);
}

void os_channel_open(void)
{
	int saved = errno;

	os_store_relaxed(&os_channel_is_on, 1);
	begin_to_listen();
	errno = saved;
}

void os_channel_after_fork(void)
{
	if (!os_channel_is_on)
		return;
	drop(&channel.listens);
	drop(&channel.asks);
	channel.busy = 0;
}

bool os_channel_enter(void)
{
	uint32_t now = os_now_ms(), before = os_load_relaxed(&channel.looked);

	if (now - before < CHANNEL_MS || !os_cmpxchg(&channel.looked, &before, now) ||
	    os_exchange(&channel.busy, 1))
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &channel.cancel);
	return true;
}

void os_channel_leave(void)
{
	int cancel = channel.cancel;

	os_store_release(&channel.busy, 0);
	pthread_setcancelstate(cancel, NULL);
}

/* Answer without a file, and close the connection. */
static void answer_line(const char *line)
{
	send(channel.asks.file, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
	drop(&channel.asks);
}

/* Accept the next asker, if there is one that may ask. */
static bool take_asker(void)
{
	struct ucred who;
	socklen_t size = sizeof(who);
	int file = accept4(channel.listens.file, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (!keep(&channel.asks, file))
		return false;
	channel.length = 0;
	channel.since = os_now_ms();
	if (getsockopt(channel.asks.file, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
	    (who.uid == geteuid() || who.uid == 0))
		return true;
	answer_line("error it belongs to another user\n");
	return false;
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
		drop(&channel.asks);
	return false;
}

bool os_channel_request(char line[CHANNEL_LINE])
{
	if (!is_still(&channel.asks)) {
		channel.asks.file = -1;
		if (!is_still(&channel.listens)) {
			channel.listens.file = -1;
			begin_to_listen();
		}
		if (channel.listens.file < 0 || !take_asker())
			return false;
	}
	if (!read_line())
		return false;
	memcpy(line, channel.line, CHANNEL_LINE);
	return true;
}

/* Growing beyond ulimit -f raises SIGXFSZ, even for a file in memory. */
int os_channel_file(void)
{
	struct rlimit limit;
	int file;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur != RLIM_INFINITY)
		return -1;
	file = memfd_create("libsheaf-answer", MFD_CLOEXEC);
	return file < 0 ? -1 : os_high(file);
}

void os_channel_answer(int file, const char *status)
{
	char line[CHANNEL_LINE], control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {line, 0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	struct cmsghdr *head;

	snprintf(line, sizeof(line), "%.*s\n", CHANNEL_LINE - 2, status);
	part.iov_len = strlen(line);
	if (file >= 0) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &file, sizeof(file));
	}
	if (is_still(&channel.asks))
		sendmsg(channel.asks.file, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	drop(&channel.asks);
	if (file >= 0)
		syscall(SYS_close, file);
}
