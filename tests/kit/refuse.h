/* SPDX-License-Identifier: MIT */
/* System calls that fail, as in a container that refuses them. */
#ifndef SHEAF_TESTS_REFUSE_H
#define SHEAF_TESTS_REFUSE_H

#include <seccomp.h>

#include "kit/check.h"

/* From now on the call fails with this error in every thread of this process; with conditions, only
 * if its arguments meet all of them. */
static inline void refuse_where(int call, int error, unsigned int nr_conditions,
				const struct scmp_arg_cmp *conditions)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	CHECK(filter);
	CHECK(seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) == 0);
	CHECK(seccomp_rule_add_array(filter, SCMP_ACT_ERRNO((unsigned int)error), call,
				     nr_conditions, conditions) == 0);
	CHECK(seccomp_load(filter) == 0);
	seccomp_release(filter);
}

#endif
