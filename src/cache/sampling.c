/* SPDX-License-Identifier: MIT */
/* Switches sampling in all caches; see sampling.h. */
#include "cache/sampling.h"

#include "cache/list.h"
#include "cache/paths.h"
#include "percpu/drain.h"

/* A cache that is made meanwhile looks at the same words, after the list's lock was taken. */
static void follow(void)
{
	for (struct kmem_cache *s = list_next(NULL); s; s = list_next(s)) {
		bool sampled = sampling_wanted(s);

		if (!sampled && !cache_is_sampled(s))
			continue;
		os_store_relaxed(&s->sheaf.sampled, sampled);
		os_fence();
		if (sampled) /* SAMPLING-P1 */
			sheaf_drain(&s->sheaf);
		cache_choose_again(s);
	}
}

static bool begin_samples(uint32_t mean, uint32_t by)
{
	uint32_t before = os_load_relaxed(&os_options.profile);
	bool possible;

	if (before) { /* what was drawn for another mean ends first */
		os_store_relaxed(&os_options.profile, 0);
		follow();
	}
	os_lock(&caches.lock);
	possible = profile_begin(mean);
	os_store_relaxed(&os_options.profile, possible ? by : before);
	if (possible)
		guard_begin();
	if (possible && !guard_range.size)
		os_store_relaxed(&os_options.profile, possible = false);
	os_unlock(&caches.lock);
	/* Bulk calls look for samples. Later, prefilled sheaves that users have may have some. */
	os_store_relaxed(&os.watched, 1);
	follow();
	return possible;
}

static void end_samples(void)
{
	os_store_relaxed(&os_options.profile, 0);
	follow();
}

bool sampling_begin(uint32_t mean, uint32_t by)
{
	bool possible;

	housekeeping_lock();
	possible = begin_samples(mean, by);
	housekeeping_unlock();
	return possible;
}

void sampling_end(void)
{
	housekeeping_lock();
	end_samples();
	housekeeping_unlock();
}

/* Must a thread that holds the lock switch it? */
static bool is_behind_tracers(void)
{
	uint32_t by = os_load_relaxed(&os_options.profile);

	return profile_is_watched() ? !by : by == PROFILE_WATCHED;
}

void sampling_see_tracers(void)
{
	if (!is_behind_tracers())
		return;
	housekeeping_lock();
	if (is_behind_tracers()) { /* still */
		if (profile_is_on())
			end_samples();
		else
			begin_samples(os_options.profile_mean, PROFILE_WATCHED);
	}
	housekeeping_unlock();
}
