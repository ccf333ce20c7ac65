/* SPDX-License-Identifier: MIT */
/*
 * The file of an answer through the control socket, when the process forks or closes all
 * descriptors meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <sheaf/slab.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal/kit/in_turn.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/control.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/channel.h"
#include "stats/out.h"

/* Returns when this thread has to answer. */
static const struct os_descriptor *begin_to_answer(void)
{
	int file;

	make_used();
	file = connect_to_self();
	CHECK(send(file, "validate\n", 9, 0) == 9);
	for (char *line = NULL; !line;)
		if (os_channel_enter()) {
			line = os_channel_request();
			if (!line)
				os_channel_leave();
		}
	return os_channel_file();
}

static void fork_during_answer(void)
{
	const struct os_descriptor *file = begin_to_answer();
	int number = file->file;
	pid_t child = fork();

	if (child == 0)
		_exit(fcntl(number, F_GETFD) >= 0);
	CHECK(status_of(child) == 0);
	CHECK(fcntl(number, F_GETFD) >= 0);
}

static void close_during_answer(void)
{
	const struct os_descriptor *file = begin_to_answer();
	char text[OUT_BYTES];
	struct out out = {.fd = file->file, .ours = file, .text = text};
	int own = memfd_create("own", MFD_CLOEXEC);

	CHECK(dup2(own, file->file) == file->file);
	out_print(&out, "an answer");
	out_flush(&out);
	os_channel_answer(NULL);
	CHECK(out.error == EBADF);
	CHECK(lseek(own, 0, SEEK_END) == 0);
}

/* CHANNEL-N4 */
static void a_child_keeps_no_answer(void **state)
{
	(void)state;
	assert_int_equal(in_child(fork_during_answer), 0);
}

/* CHANNEL-N3 */
static void answers_go_to_no_other_file(void **state)
{
	(void)state;
	assert_int_equal(in_child(close_during_answer), 0);
}

int test_channel(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_keeps_no_answer),
		cmocka_unit_test(answers_go_to_no_other_file),
	};

	one_more_option("control");
	return cmocka_run_group_tests_name("control-channel", tests, NULL, NULL);
}
