// SPDX-License-Identifier: MIT
/*
 * The operators of C++: alignment, std::bad_alloc through frames that clean up, new handlers,
 * nothrow forms, destructors of threads and of the process that allocate.
 */
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace
{
struct map_of_texts {
	std::map<std::string, std::string> texts;

	map_of_texts()
	{
		for (int i = 0; i < 100; i++)
			texts[std::to_string(i)] = std::string(static_cast<size_t>(i), 'x');
	}

	~map_of_texts()
	{
		texts["last"] = std::string(5000, 'y');
		CHECK(texts.size() >= 101);
	}
};

map_of_texts of_process;
thread_local map_of_texts of_thread;

struct alignas(256) wide {
	char bytes[300];
};

void make_each()
{
	auto *one = new wide;
	auto *some = new wide[5];
	auto *quiet = new (std::nothrow) wide;
	auto *bytes = new char[HIDDEN(size_t(0))];

	CHECK(reinterpret_cast<uintptr_t>(one) % 256 == 0);
	CHECK(reinterpret_cast<uintptr_t>(some) % 256 == 0);
	CHECK(reinterpret_cast<uintptr_t>(quiet) % 256 == 0);
	CHECK(bytes);
	delete one;
	delete[] some;
	delete quiet;
	delete[] bytes;
	operator delete(operator new(10, std::nothrow), std::nothrow);
	operator delete[](operator new[](10, std::nothrow), std::nothrow);
	operator delete(operator new(10), size_t(10));
	operator delete(operator new(640, std::align_val_t(64)), size_t(640), std::align_val_t(64));
	operator delete[](operator new[](640, std::align_val_t(64)), std::align_val_t(64));
}

int cleaned;

struct cleans {
	~cleans()
	{
		cleaned++;
	}
};

/* The compiler must not see that this fails. */
__attribute__((noinline)) char *make(size_t size)
{
	cleans local;

	return new char[size];
}

size_t too_much = size_t(1) << 61;
char *volatile made; /* compilers leave out an allocation whose result nobody needs */

bool throws()
{
	try {
		made = make(HIDDEN(too_much));
	} catch (const std::exception &error) {
		return dynamic_cast<const std::bad_alloc *>(&error) != nullptr;
	}
	return false;
}

volatile int handled; /* compilers take it that an operator changes nothing */

void fail()
{
	CHECK(throws() && cleaned == 1);
	made = new (std::nothrow) char[HIDDEN(too_much)];
	CHECK(!made);
	CHECK(!operator new(HIDDEN(too_much), std::align_val_t(64), std::nothrow));
	std::set_new_handler([] {
		if (++handled == 3)
			std::set_new_handler(nullptr);
	});
	CHECK(throws() && handled == 3 && cleaned == 2);
	std::set_new_handler([] {
		handled = 10;
		throw std::bad_alloc();
	});
	CHECK(throws() && handled == 10);
	handled = 0;
	made = new (std::nothrow) char[HIDDEN(too_much)];
	CHECK(!made && handled == 10);
	CHECK(!operator new(HIDDEN(too_much), std::nothrow));
	CHECK(!operator new(HIDDEN(too_much), std::align_val_t(64), std::nothrow));
	CHECK(!operator new[](HIDDEN(too_much), std::align_val_t(64), std::nothrow));
	std::set_new_handler(nullptr);
}
} // namespace

int main()
{
	std::vector<std::thread> threads;

	check_ours();
	make_each();
	fail();
	for (int i = 0; i < 20; i++)
		threads.emplace_back([] { of_thread.texts["a"] = "b"; });
	for (auto &thread : threads)
		thread.join();
	std::atexit([] { std::string text(HIDDEN(size_t(1000)), 'q'); });
	return std::make_shared<std::string>(100, 'z')->size() == 100 ? 0 : 1;
}
