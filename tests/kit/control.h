/* SPDX-License-Identifier: MIT */
/* The other end of the control socket. */
#ifndef SHEAF_TESTS_CONTROL_H
#define SHEAF_TESTS_CONTROL_H

#include <sheaf/slab.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "kit/check.h"

/* A socket connected to this process, as `sheaf` opens it; -1: the process does not listen. */
static inline int try_to_connect(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "libsheaf-control-%d",
			      (int)getpid());
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);

	CHECK(file >= 0);
	if (connect(file, (struct sockaddr *)&name, size) == 0)
		return file;
	close(file);
	return -1;
}

static inline int connect_to_self(void)
{
	int file = try_to_connect();

	CHECK(file >= 0);
	return file;
}

/* Ask this, and return the line that answers. Slow calls of this cache notice the question. *sent
 * is the file that came with the answer, or -1; with NULL, that file is closed. */
static inline void ask_for_file(struct kmem_cache *s, int file, const char *question, char *answer,
				size_t size, int *sent)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = {answer, size - 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = sent ? control : NULL,
				 .msg_controllen = sent ? sizeof(control) : 0};
	ssize_t length;

	CHECK(send(file, question, strlen(question), 0) == (ssize_t)strlen(question));
	do {
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
		length = recvmsg(file, &message, MSG_DONTWAIT);
	} while (length < 0);
	answer[length] = '\0';
	if (!sent)
		return;
	*sent = -1;
	if (message.msg_controllen)
		memcpy(sent, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(*sent));
}

static inline void ask_self(struct kmem_cache *s, int file, const char *question, char *answer,
			    size_t size)
{
	ask_for_file(s, file, question, answer, size, NULL);
}

/* A cache whose live object is in its traces. */
static inline struct kmem_cache *make_used(void)
{
	struct kmem_cache *s = kmem_cache_create("asked", 64, NULL, SLAB_STORE_USER);

	CHECK(s && kmem_cache_alloc(s, GFP_KERNEL));
	return s;
}

#endif
