/* SPDX-License-Identifier: MIT */
/*
 * Requests through the control socket, which arrive in pieces: a zero ends each. Whatever is asked,
 * the answer is one line, the next asker gets one, too, and the caches are as before, but for their
 * settings: these are in their ranges, and the same after an error.
 */
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fuzz/target.h"
#include "kit/control.h"
#include "os/channel.h"
#include "stats/stats.h"

static long passed = 1000000; /* ms */

/* The library's clock. Hidden, so that the fuzzer keeps its own. */
__attribute__((visibility("hidden"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	*now = (struct timespec){passed / 1000, passed % 1000 * 1000000};
	return 0;
}

static struct kmem_cache *caches_here[3];

struct settings {
	uint64_t capacity, barn_full, limit, min_partial, set_by, decay;
};

static void read_settings(struct settings *of)
{
	struct sheaf_stats all;

	sheaf_stats(&all);
	for (int i = 0; i < 3; i++) {
		struct kmem_cache_stats stats;

		FUZZ_CHECK(kmem_cache_stats(caches_here[i], &stats) == 0);
		of[i] = (struct settings){stats.sheaf_capacity, stats.limit_barn_full,
					  stats.limit_bytes,	stats.min_partial,
					  stats.set_by,		all.decay_ms};
		FUZZ_CHECK(of[i].capacity <= 4096 && of[i].min_partial <= 65535);
		FUZZ_CHECK(!of[i].capacity == !of[i].barn_full && of[i].set_by < 256);
		FUZZ_CHECK(of[i].decay <= 3600000 || of[i].decay == UINT32_MAX);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	setenv("SHEAF_OPTIONS", "control;slab_debug=FZPU,asked;slab_quarantine=1", 1);
	caches_here[0] = make_used();
	caches_here[1] = kmem_cache_create("not checked", 64, NULL, 0);
	caches_here[2] = kmem_cache_create("a name \"with\" \\ and *", 100, NULL, 0);
	return 0;
}

static void look(void)
{
	passed += CHANNEL_MS;
	control_look();
}

/* The answer, without its file; 0: there is none. */
static size_t receive(int file, char *text, size_t size)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = {text, size};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	ssize_t length = recvmsg(file, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *head = length > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	int answer;

	if (head) {
		memcpy(&answer, CMSG_DATA(head), sizeof(answer));
		FUZZ_CHECK(lseek(answer, 0, SEEK_END) >= 0 && close(answer) == 0);
	}
	return length > 0 ? (size_t)length : 0;
}

static size_t ask(struct fuzz_bytes in, char *text, size_t size)
{
	int file = connect_to_self();
	size_t length = 0;

	for (unsigned int i = 0; i < 16 && in.left && !length; i++) {
		char piece[CHANNEL_LINE + 8];

		fuzz_text(&in, '\0', piece, sizeof(piece));
		if (*piece && send(file, piece, strlen(piece), MSG_NOSIGNAL) < 0)
			break;
		look();
		length = receive(file, text, size);
	}
	close(file);
	look(); /* drops what is left of the asker */
	return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char validate[] = "validate\tasked\n";
	struct settings before[3], after[3];
	char text[512];
	size_t length;

	read_settings(before);
	length = ask((struct fuzz_bytes){data, size}, text, sizeof(text) - 1);

	text[length] = '\0';
	read_settings(after);
	if (strcmp(text, "ok\n"))
		FUZZ_CHECK(!memcmp(before, after, sizeof(after)));
	if (length) {
		FUZZ_CHECK(length < sizeof(text) - 1 && strchr(text, '\n') == text + length - 1);
		FUZZ_CHECK(!strcmp(text, "ok\n") || !strncmp(text, "error ", 6));
	}
	length = ask((struct fuzz_bytes){(const uint8_t *)validate, sizeof(validate) - 1}, text,
		     sizeof(text) - 1);
	FUZZ_CHECK(length == 3 && !memcmp(text, "ok\n", 3));
	return 0;
}
