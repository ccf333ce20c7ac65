/* SPDX-License-Identifier: MIT */
/* Captures the reports of a layer whose callers write its deferred ones. */
#ifndef SHEAF_TESTS_REPORTS_H
#define SHEAF_TESTS_REPORTS_H

#include "kit/told.h"
#include "os/report/report.h"

static inline int told_end_kept(struct told *told)
{
	os_report_kept();
	return told_end(told);
}

#endif
