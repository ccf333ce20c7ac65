/* SPDX-License-Identifier: MIT */
/*
 * Readers, while one writer maps and unmaps at random places without pause: the number of their
 * lookups, and of its pairs, in a window of time. Under RCU the readers take no lock; otherwise all
 * threads take one for each operation. Each reader looks up all places in turn; one in nine is
 * absent.
 *
 * The writer runs its pairs forwards and backwards, so it can continue forever.
 */
#ifndef BENCH_MAPLE_READERS_HPP
#define BENCH_MAPLE_READERS_HPP

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <thread>

#include "load.hpp"
#include "pair.hpp"

struct readers_options {
	unsigned int readers;
	size_t window; /* milliseconds */
	const char *lock;
	bool alone;
};

struct no_lock {
	void read()
	{
	}
	void write()
	{
	}
	void done()
	{
	}
};

struct mutex_lock {
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	void read()
	{
		pthread_mutex_lock(&lock);
	}
	void write()
	{
		pthread_mutex_lock(&lock);
	}
	void done()
	{
		pthread_mutex_unlock(&lock);
	}
};

struct rw_lock {
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

	void read()
	{
		pthread_rwlock_rdlock(&lock);
	}
	void write()
	{
		pthread_rwlock_wrlock(&lock);
	}
	void done()
	{
		pthread_rwlock_unlock(&lock);
	}
};

constexpr size_t AT_ONCE = 64; /* operations between checks for the end */

template <class S, class Lock> class race
{
      public:
	race(S &tree, const std::vector<place> &places, const addresses &where,
	     const std::vector<pair_of_places> &pairs)
	    : tree_(tree), places_(places), where_(where), pairs_(pairs)
	{
	}

	void run(const readers_options &o)
	{
		std::vector<std::thread> threads;

		for (unsigned int i = 0; i < o.readers; i++)
			threads.emplace_back([this, i] { reader(i); });
		if (!o.alone)
			threads.emplace_back([this] { writer(); });
		sleep_ms(o.window / 10 + 1); /* not measured */
		const size_t lookups = lookups_, pairs = pairs_done_;
		const double start = bench_time();
		sleep_ms(o.window);
		const double us = (bench_time() - start) / 1e3;
		std::printf("lookups %.5f\npairs %.5f\n",
			    static_cast<double>(lookups_ - lookups) / us,
			    static_cast<double>(pairs_done_ - pairs) / us);
		stop_ = true;
		for (std::thread &one : threads)
			one.join();
		if (wrong_) {
			std::fprintf(stderr,
				     "maple: a reader found another entry than was there\n");
			std::exit(1);
		}
	}

      private:
	static void sleep_ms(size_t ms)
	{
		std::this_thread::sleep_for(std::chrono::milliseconds(ms));
	}

	/* CPU 0 and the CPUs after the writer's, in turn. */
	void reader(unsigned int index)
	{
		size_t at = where_.size() / 8 * index;

		bench_pin(bench_cpu(index ? index + 1 : 0));
		S::thread_begin();
		while (!stop_) {
			const void *found = nullptr;
			uintptr_t all = 0;

			for (size_t i = 0; i < AT_ONCE; i++) {
				at = at + 1 < where_.size() ? at + 1 : 0;
				found = look_up(where_[at]);
				all |= reinterpret_cast<uintptr_t>(found);
			}
			check(found, where_[at]);
			if (all & 15)
				wrong_ = true; /* no entry at all */
			lookups_ += AT_ONCE;
		}
		S::thread_end();
	}

	const void *look_up(unsigned long index)
	{
		lock_.read();
		const void *const found = tree_.load(index);
		lock_.done();
		return found;
	}

	/* This entry or none may be there, but no other. */
	void check(const void *found, unsigned long index)
	{
		if (!found)
			return;
		const size_t number = number_of(found);
		if (number >= places_.size() || index < places_[number].first ||
		    index > places_[number].last)
			wrong_ = true;
	}

	void replace(const place &out, const place &in)
	{
		lock_.write();
		const void *const found = tree_.unmap(out.first);
		lock_.done();
		if (found != out.entry)
			wrong_ = true;
		lock_.write();
		tree_.map(in);
		lock_.done();
	}

	void writer()
	{
		bench_pin(bench_cpu(1));
		S::thread_begin();
		while (!stop_) {
			for (size_t i = 0; i < pairs_.size() && !stop_; i++, pairs_done_++)
				replace(pairs_[i].out, pairs_[i].in);
			for (size_t i = pairs_.size(); i-- > 0 && !stop_; pairs_done_++)
				replace(pairs_[i].in, pairs_[i].out);
		}
		S::thread_end();
	}

	S &tree_;
	const std::vector<place> &places_;
	const addresses &where_;
	const std::vector<pair_of_places> &pairs_;
	Lock lock_;
	alignas(128) std::atomic<bool> stop_{false};
	std::atomic<bool> wrong_{false};
	alignas(128) std::atomic<size_t> lookups_{0};
	alignas(128) std::atomic<size_t> pairs_done_{0};
};

template <class S>
void do_readers(S &tree, const std::vector<place> &places, const std::vector<uint32_t> &order,
		size_t present, const readers_options &o)
{
	const auto pairs = random_pairs(places, order, present, pairs_for(present));
	const addresses where = random_addresses(places, order, places.size(), true);

	if constexpr (S::lockless)
		if (!std::strcmp(o.lock, "none"))
			return race<S, no_lock>(tree, places, where, pairs).run(o);
	if constexpr (S::changes) {
		if (!std::strcmp(o.lock, "mutex"))
			return race<S, mutex_lock>(tree, places, where, pairs).run(o);
		if (!std::strcmp(o.lock, "rwlock"))
			return race<S, rw_lock>(tree, places, where, pairs).run(o);
	}
	std::fprintf(stderr, "maple: this structure has no --lock %s\n", o.lock);
	std::exit(2);
}

#endif
