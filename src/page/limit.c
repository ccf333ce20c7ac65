/* SPDX-License-Identifier: MIT */
/* Counts held pages against limits; see limit.h. */
#include "page/limit.h"

#include "os/machine.h"
#include "os/memory.h"
#include "os/should_fail.h"
#include "page/decay.h"

struct page_limit page_limit = {
	.soft = PAGE_NO_LIMIT, .hard = PAGE_NO_LIMIT, .target = PAGE_NO_LIMIT};

/* Does not add first and subtract on failure: a large request that is refused must not make smaller
 * ones of other threads fail. */
static bool add_below(size_t hard, size_t pages, size_t *before)
{
	*before = os_load_relaxed(&page_limit.held);
	do {
		if (*before >= hard || pages > hard - *before)
			return false;
	} while (!os_cmpxchg(&page_limit.held, before, *before + pages));
	return true;
}

bool page_hold(size_t pages)
{
	size_t hard = os_load_relaxed(&page_limit.hard), before;

	if (os_likely(hard == PAGE_NO_LIMIT)) {
		before = os_fetch_add(&page_limit.held, pages);
	} else if (os_should_fail("page_hold") || !add_below(hard, pages, &before)) {
		return false;
	}
	/* Housekeeping will check the limit. */
	if (os_unlikely(before + pages > os_load_relaxed(&page_limit.soft)))
		decay_see_time(os_now_ms());
	return true;
}

void page_wait_returning(void)
{
	/* Twice: a thread may have read the phase long before it began. */
	for (int turn = 0; turn < 2; turn++) {
		uint32_t old = os_fetch_add(&page_limit.phase, 1) & 1;

		while (os_load_acquire(&page_limit.returning[old]))
			os_sleep_briefly();
	}
}

void page_forget_returning(void)
{
	if (page_is_returning())
		page_limit.returning[0] = page_limit.returning[1] = 0;
	if (page_limit.last_looks)
		page_limit.last_looks = 0;
}

size_t page_room(void)
{
	size_t held = os_load_relaxed(&page_limit.held), hard = os_load_relaxed(&page_limit.hard);

	return held < hard ? hard - held : 0;
}

void page_count_failure(size_t pages)
{
	if (pages > page_room())
		os_fetch_add_relaxed(&page_limit.failures, 1);
}

static size_t limit_pages(size_t bytes)
{
	return bytes ? bytes >> OS_PAGE_SHIFT : PAGE_NO_LIMIT;
}

void page_set_limits(size_t soft, size_t hard)
{
	os_store_relaxed(&page_limit.target, limit_pages(soft));
	os_store_relaxed(&page_limit.hard, limit_pages(hard));
	page_press(os_load_relaxed(&page_limit.pressed));
}

/* If another thread sets limits at the same time, the next round of housekeeping corrects it. */
void page_press(bool pressed)
{
	os_store_relaxed(&page_limit.pressed, pressed);
	os_store_relaxed(&page_limit.soft, pressed ? 0 : os_load_relaxed(&page_limit.target));
}
