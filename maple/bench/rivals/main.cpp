/* SPDX-License-Identifier: MIT */
/*
 * The maple benchmark: one structure of BENCH_HEADER, called BENCH_STRUCTURE, at the typical work
 * of a tree of ranges. `sheaf bench maple` runs it for each structure, and compares sums.
 *
 * Runs the workloads that --only names, in this order; the tree of `build` is that of all the
 * workloads down to `pair`: N of 1.125 N places with gaps, stored in random order.
 */
#include "common.hpp"
#include "load.hpp"
#include "pair.hpp"
#include "tree.hpp"

#include <cstring>

#include BENCH_HEADER
#include "readers.hpp"
#ifdef BENCH_COUNTS
#include "counts.hpp"
#endif

using S = BENCH_STRUCTURE;

struct options {
	size_t ranges, readers, window;
	const char *only, *lock;
	bool alone;
};

static options parse(int argc, char **argv)
{
	options o = {1000, 0, 200, "load,iterate,gap,dup,pair,adjacent", "none", false};
	const bench_option table[] = {
		{"ranges", &o.ranges, 1 << 24, nullptr, nullptr},
		{"readers", &o.readers, 64, nullptr, nullptr},
		{"window", &o.window, 60000, nullptr, nullptr},
		{"only", nullptr, 0, &o.only, nullptr},
		{"lock", nullptr, 0, &o.lock, nullptr},
		{"alone", nullptr, 0, nullptr, &o.alone},
		{nullptr, nullptr, 0, nullptr, nullptr},
	};

	bench_parse(
		argc, argv, table,
		"only: of build,load,iterate,gap,varied,dup,pair,adjacent (separated by commas),\n"
		"  or by itself bytes-random, bytes-ascending, bytes-adjacent, readers, counts\n"
		"readers: threads that look up for --window milliseconds beside a writer, or\n"
		"  --alone; lock: none (RCU), mutex, rwlock\n"
		"Measure one structure; `sheaf bench maple` runs this.\n");
	return o;
}

static bool wanted(const options &o, const char *name)
{
	const std::string list = std::string(",") + o.only + ",";

	return list.find(std::string(",") + name + ",") != std::string::npos;
}

/* Ranges, in the order in which they are stored. */
struct world {
	std::vector<place> places;
	std::vector<uint32_t> order;
	size_t present;

	world(size_t ranges, gaps kind)
	    : places(make_places(ranges * PLACES_PER_8 / 8 + 1, kind)),
	      order(make_order(places.size(), ranges, ranges)), present(ranges)
	{
	}
};

static void do_loads(const S &tree, const world &w)
{
	const addresses hits = random_addresses(w.places, w.order, w.present, true);
	const addresses misses = random_addresses(w.places, w.order, w.present, false);

	/* What the build retired is freed by another thread, which would share the caches. */
	S::reclaim();
	time_loads("load-random", tree, hits, load_all<S>);
	time_loads("load-chain", tree, hits, load_chain<S>);
	time_loads("load-same", tree, hits, load_same<S, false>);
	time_loads("load-same-chain", tree, hits, load_same<S, true>);
	time_loads("load-miss", tree, misses, load_all<S>);
}

/* A structure that looks at every range gets fewer searches, so that they end. */
static size_t searches_for(size_t ranges)
{
	return S::searches ? MANY : std::max<size_t>(2, SOME * 50 / ranges);
}

static void do_gaps(const S &tree, size_t ranges)
{
	time_gaps("gap-near", tree, {PAGE}, MANY);
	time_gaps("gap-one", tree, {BIG_GAP * PAGE}, searches_for(ranges));
	time_gaps("gap-below", tree, {4 * BIG_GAP * PAGE}, searches_for(ranges));
}

static void do_varied(size_t ranges)
{
	const std::vector<place> places = make_places(ranges, gaps::varied);
	const std::vector<uint32_t> order = make_order(ranges, ranges, ranges);
	trees<S> tree = make_trees<S>(1, ranges);

	if (!S::searches && ranges > 10000)
		return;
	fill(tree, places, order, ranges, ranges > 100000);
	time_gaps("gap-varied", *tree[0], varied_sizes(ranges),
		  std::max(SUMMED, searches_for(ranges)));
}

template <class T> void do_copies(const T &tree, size_t ranges)
{
	if constexpr (T::copies) {
		time_copies("dup", "dup", tree, ranges, &T::copy_from);
		time_copies("dup-replace", "dup-replace", tree, ranges, &T::copy_replaced);
	}
	if constexpr (T::stores_copies)
		time_copies("dup-store", "dup-replace", tree, ranges, &T::copy_and_store);
}

/* Builds trees; one of them remains. */
static trees<S> build(const world &w, bool print)
{
	trees<S> made = make_trees<S>(S::changes ? trees_for(w.present) : 1, w.places.size());
	const double taken = fill(made, w.places, w.order, w.present, false,
				  print && S::changes && w.present <= WARM_MOST);

	if (print && S::changes)
		print_time("store-random", taken, made.size() * w.present);
	made.resize(1);
	return made;
}

static void do_tree(const options &o)
{
	const world w(o.ranges, gaps::some);
	trees<S> made = build(w, wanted(o, "build"));
	S &tree = *made[0];

	print_sum("build", sum_of(tree));
	if (wanted(o, "load"))
		do_loads(tree, w);
	if (wanted(o, "iterate"))
		time_each(tree, o.ranges);
	if (wanted(o, "gap"))
		do_gaps(tree, o.ranges);
	if (wanted(o, "dup"))
		do_copies(tree, o.ranges);
	if constexpr (S::changes) {
		if (wanted(o, "pair")) {
			time_random_pairs(tree, w.places, w.order, w.present);
			time_same_pairs(tree, w.places, w.order, w.present);
		}
	}
}

static void do_adjacent(size_t ranges)
{
	const world w(ranges, gaps::none);

	for (const bool ascending : {true, false}) {
		const char *const name = ascending ? "store-ascending" : "store-adjacent";
		if (!ascending && ranges > WARM_MOST)
			break; /* it takes as long as with gaps */
		trees<S> made = make_trees<S>(trees_for(ranges), w.places.size());
		const std::vector<place> all(w.places.end() - static_cast<long>(ranges),
					     w.places.end());
		std::vector<uint32_t> order = make_order(ranges, ranges, ranges);

		print_time(name, fill(made, all, order, ranges, ascending, ranges <= WARM_MOST),
			   made.size() * ranges);
		print_sum(name, sum_of(*made.back()));
	}
}

/* Bytes per range of one tree, or of many small ones, stored in random or in ascending order. */
static void do_memory(const options &o)
{
	const bool adjacent = wanted(o, "bytes-adjacent");
	const std::vector<place> places = make_places(o.ranges, adjacent ? gaps::none : gaps::some);
	const std::vector<uint32_t> order = make_order(o.ranges, o.ranges, o.ranges);
	trees<S> made = make_trees<S>(trees_for(o.ranges), o.ranges);
	const size_t before = S::bytes();

	fill(made, places, order, o.ranges, !wanted(o, "bytes-random"));
	const auto bytes = static_cast<double>(S::bytes() - before);
	print_time(o.only, bytes, made.size() * o.ranges);
	if (const size_t nodes = S::bytes_of_nodes())
		print_time(std::string(o.only) + "-nodes", static_cast<double>(nodes),
			   made.size() * o.ranges);
	print_sum(o.only, sum_of(*made.back()));
}

int main(int argc, char **argv)
{
	const options o = parse(argc, argv);

	if (o.ranges < 2) {
		std::fprintf(stderr, "maple: at least 2 ranges are needed\n");
		return 2;
	}
	S::begin();
	bench_pin(bench_cpu(1));
	if (!std::strncmp(o.only, "bytes-", 6)) {
		do_memory(o);
	} else if (wanted(o, "readers")) {
		const world w(o.ranges, gaps::some);

		do_readers(*build(w, false)[0], w.places, w.order, w.present,
			   {static_cast<unsigned int>(o.readers), o.window, o.lock, o.alone});
#ifdef BENCH_COUNTS
	} else if (wanted(o, "counts")) {
		const world w(o.ranges, gaps::some);

		do_counts(*build(w, false)[0], w.places, w.order, w.present);
#endif
	} else {
		do_tree(o);
		if (S::changes && wanted(o, "adjacent"))
			do_adjacent(o.ranges);
		if (wanted(o, "varied"))
			do_varied(o.ranges);
	}
	return 0;
}
