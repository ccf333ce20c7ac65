/* SPDX-License-Identifier: MIT */
/*
 * A server with a leak and a hot path: docs/profiling.md finds both. It serves as many requests as
 * each line of standard input says, and then prints how many it has served.
 *
 *     cc -g -O2 requests.c -o requests
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS 7u

struct session {
	struct session *next;
	unsigned int number;
	char state[1000];
};

static struct session *sessions;

/* Nobody ends a session. */
static void begin_session(unsigned int number)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		exit(1);
	session->number = number;
	session->next = sessions;
	sessions = session;
}

/* Each field is found in a copy of its own. */
static size_t field_length(const char *request, unsigned int n)
{
	char *copy = strdup(request), *rest = copy, *field = NULL;
	size_t length;

	for (unsigned int i = 0; copy && i <= n; i++)
		field = strsep(&rest, " ");
	length = field ? strlen(field) : 0;
	free(copy);
	return length;
}

static size_t serve(unsigned int number)
{
	char request[128];
	size_t length = 0;

	snprintf(request, sizeof(request),
		 "GET /page/%u HTTP/1.1 host: example.org accept: text/html", number);
	for (unsigned int i = 0; i < FIELDS; i++)
		length += field_length(request, i);
	if (number % 10 == 0)
		begin_session(number);
	return length;
}

int main(void)
{
	unsigned int served = 0;
	size_t length = 0;
	char line[32];

	while (fgets(line, sizeof(line), stdin)) {
		for (unsigned long n = strtoul(line, NULL, 10); n; n--)
			length += serve(served++);
		printf("%u requests, %zu bytes in their fields\n", served, length);
		fflush(stdout);
	}
	return 0;
}
