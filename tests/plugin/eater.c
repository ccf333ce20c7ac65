/* SPDX-License-Identifier: MIT */
/* Takes a word of the static storage for threads: full.c loads copies until it is used up. */
static __thread long eaten __attribute__((tls_model("initial-exec")));

__attribute__((visibility("default"))) long *eater_word(void);

long *eater_word(void)
{
	return &eaten;
}
