/* SPDX-License-Identifier: MIT */
/*
 * A process without the option `control` that the tool wakes: it listens from its next slow call
 * on, and for a minute after the last request. tools/tests/test_wake.py has the tool's side. And
 * one whose probes are watched.
 */
#include <errno.h>
#include <sheaf/slab.h>
#include <sys/resource.h>
#include <unistd.h>

#include "debug/profile.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/control.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/atomic.h"
#include "os/channel.h"

static struct kmem_cache *s;

extern uint16_t sheaf_otel_memory_alloc_semaphore, sheaf_otel_memory_free_semaphore;

static void begin(void)
{
	clock_stands = true;
	s = kmem_cache_create("asked", 64, NULL, 0);
	CHECK(s);
}

/* One that looks at the socket, if there is one. */
static void call_after_ms(unsigned int ms)
{
	clock_pass_ms(ms);
	(void)kmem_cache_shrink(s);
}

static void wake(void)
{
	os_store_relaxed(&os_channel_is_on, CHANNEL_WOKEN);
}

static bool listens(void)
{
	int file = try_to_connect();

	if (file >= 0)
		close(file);
	return file >= 0;
}

static void ask(const char *question)
{
	int file = connect_to_self();
	char answer[64];
	ssize_t length;

	CHECK(send(file, question, strlen(question), 0) > 0);
	do {
		call_after_ms(CHANNEL_MS);
		length = recv(file, answer, sizeof(answer) - 1, MSG_DONTWAIT);
	} while (length < 0);
	answer[length] = '\0';
	CHECK(!strcmp(answer, "ok\n"));
	close(file);
}

static void be_woken(void)
{
	begin();
	call_after_ms(CHANNEL_MS);
	CHECK(!listens());
	wake();
	CHECK(!listens());
	call_after_ms(CHANNEL_MS);
	ask("stats\n");
	ask("trim\n");
	ask("tune\n");
	/* Each request begins the time again. */
	call_after_ms(CHANNEL_WOKEN_MS - 1000);
	ask("validate\n");
	call_after_ms(CHANNEL_WOKEN_MS - 1000);
	CHECK(os_channel_is_on == CHANNEL_WOKEN);
	ask("validate\n");
	call_after_ms(CHANNEL_WOKEN_MS + 1);
	CHECK(os_channel_is_on == CHANNEL_OFF && !listens());
	/* And again. */
	wake();
	call_after_ms(CHANNEL_MS);
	ask("stats\n");
}

/* A refill reads the clock, and then the call does what is due. */
static void go_on(void)
{
	call_after_ms(100);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
}

/* Tracers count themselves in a word: so does this. Only the profile that they began ends. */
static void be_watched(void)
{
	begin();
	go_on();
	CHECK(!profile_is_on());
	sheaf_otel_memory_free_semaphore = 1;
	go_on();
	CHECK(profile_is_on() && profile_mean() == PROFILE_MEAN);
	sheaf_otel_memory_alloc_semaphore = 1;
	sheaf_otel_memory_free_semaphore = 0;
	go_on();
	CHECK(profile_is_on());
	sheaf_otel_memory_alloc_semaphore = 0;
	go_on();
	CHECK(!profile_is_on());
	sheaf_otel_memory_alloc_semaphore = 1;
	wake();
	go_on();
	ask("profile on 4096\n");
	sheaf_otel_memory_alloc_semaphore = 0;
	go_on();
	CHECK(profile_is_on() && profile_mean() == 4096);
	ask("profile off\n");
	go_on();
	CHECK(!profile_is_on());
}

static void fork_awake(void)
{
	pid_t child;

	begin();
	wake();
	call_after_ms(CHANNEL_MS);
	CHECK(listens());
	child = fork();
	if (child == 0) {
		call_after_ms(CHANNEL_MS);
		CHECK(os_channel_is_on == CHANNEL_OFF && !listens());
		wake();
		call_after_ms(CHANNEL_MS);
		ask("stats\n");
		_exit(0);
	}
	CHECK(status_of(child) == 0);
	ask("stats\n");
}

/* It says why, in the word only, and can be woken again. */
static void be_refused(void)
{
	struct rlimit limit, none;

	begin();
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	none = (struct rlimit){0, limit.rlim_max};
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	wake();
	call_after_ms(CHANNEL_MS);
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(os_channel_is_on == -EMFILE);
	call_after_ms(CHANNEL_MS);
	CHECK(os_channel_is_on == -EMFILE && !listens());
	wake();
	call_after_ms(CHANNEL_MS);
	ask("stats\n");
}

static void a_woken_process_answers_for_a_minute(void **state)
{
	(void)state;
	assert_int_equal(in_child(be_woken), 0);
}

/* CHANNEL-N4 */
static void its_child_sleeps(void **state)
{
	(void)state;
	assert_int_equal(in_child(fork_awake), 0);
}

static void a_refused_socket_is_told(void **state)
{
	(void)state;
	assert_int_equal(in_child(be_refused), 0);
}

static void tracers_switch_the_profile(void **state)
{
	(void)state;
	assert_int_equal(in_child(be_watched), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_woken_process_answers_for_a_minute),
		cmocka_unit_test(its_child_sleeps),
		cmocka_unit_test(a_refused_socket_is_told),
		cmocka_unit_test(tracers_switch_the_profile),
	};

	return cmocka_run_group_tests_name("wake", tests, NULL, NULL);
}
