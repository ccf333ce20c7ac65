/* SPDX-License-Identifier: MIT */
/* Questions through the control socket that the process has no memory to answer. */
#include <sheaf/slab.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "kit/check.h"
#include "kit/process.h"
#include "kit/unit.h"

#define CACHES 3

static int connect_to_self(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "libsheaf-control-%d",
			      (int)getpid());
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);

	CHECK(file >= 0 && connect(file, (struct sockaddr *)&name, size) == 0);
	return file;
}

/* The line that answers this question. Slow calls of this cache see it. */
static void ask(struct kmem_cache *s, int file, const char *question, char *answer, size_t size)
{
	ssize_t length;

	CHECK(send(file, question, strlen(question), 0) == (ssize_t)strlen(question));
	do {
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
		length = recv(file, answer, size - 1, MSG_DONTWAIT);
	} while (length < 0);
	answer[length] = '\0';
}

/* All caches can be destroyed after the first of them could not be printed: none is pinned. */
static void ask_without_memory(void)
{
	struct kmem_cache *s[CACHES];
	char name[16], answer[128];
	int file;

	for (int i = 0; i < CACHES; i++) {
		snprintf(name, sizeof(name), "asked %d", i);
		s[i] = kmem_cache_create(name, 64, NULL, SLAB_STORE_USER);
		CHECK(s[i]);
		kmem_cache_free(s[i], kmem_cache_alloc(s[i], GFP_KERNEL));
	}
	file = connect_to_self();
	no_more_memory();
	ask(s[0], file, "traces alloc text\tasked*\n", answer, sizeof(answer));
	CHECK(!strcmp(answer, "error Cannot allocate memory\n"));
	for (int i = 0; i < CACHES; i++)
		kmem_cache_destroy(s[i]);
}

static void no_memory_for_traces(void **state)
{
	(void)state;
	assert_int_equal(in_child(ask_without_memory), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_memory_for_traces),
	};

	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
