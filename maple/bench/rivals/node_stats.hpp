/* SPDX-License-Identifier: MIT */
/*
 * The library's statistics of the maple tree's cache of nodes, by name. The tree owns this cache,
 * so its statistics are taken from the text of sheaf_stats_print().
 */
#ifndef BENCH_MAPLE_NODE_STATS_HPP
#define BENCH_MAPLE_NODE_STATS_HPP

#include <cstdint>
#include <cstdlib>
#include <map>
#include <sheaf/stats.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

inline std::string stats_text()
{
	const int file = memfd_create("statistics", 0);
	std::string text;

	if (file < 0 || sheaf_stats_print(file, SHEAF_STATS_JSON))
		std::abort();
	text.resize(static_cast<size_t>(lseek(file, 0, SEEK_END)));
	if (pread(file, &text[0], text.size(), 0) != static_cast<ssize_t>(text.size()))
		std::abort();
	close(file);
	return text;
}

/* Empty before the cache's first use, and without values that are not counted. */
inline std::map<std::string, uint64_t> node_stats()
{
	std::map<std::string, uint64_t> found;
	const std::string text = stats_text();
	size_t at = text.find("\"maple_node\"");
	const size_t end = text.find('}', at);

	while (at != std::string::npos) {
		const size_t name = text.find('"', at);
		const size_t name_end = text.find('"', name + 1);
		if (name >= end || name_end >= end)
			break;
		at = name_end + 1;
		if (text[at] == ':')
			found[text.substr(name + 1, name_end - name - 1)] =
				std::strtoull(&text[at + 1], nullptr, 10);
	}
	return found;
}

#endif
