// SPDX-License-Identifier: MIT
/*
 * A program that replaces the plain operators new and delete, and no other: by the C++ standard all
 * others call these. Its blocks begin behind a head, so a delete of one by the library is wrong.
 */
#include <cstdint>
#include <new>

#include "check.h"

namespace
{
int in_use;
constexpr uint64_t STAMP = 0x1234567812345678;

void *with_head(size_t size, size_t align)
{
	auto *block = static_cast<char *>(aligned_alloc(align, (size + 2 * align - 1) & -align));

	CHECK(block);
	*reinterpret_cast<uint64_t *>(block) = STAMP;
	in_use++;
	return block + align;
}

void without_head(void *object, size_t align)
{
	char *block = static_cast<char *>(object) - align;

	if (!object)
		return;
	CHECK(*reinterpret_cast<uint64_t *>(block) == STAMP);
	in_use--;
	free(block);
}

enum {
	ALIGN = 64
};
constexpr std::align_val_t WIDE{ALIGN};

void *made(void *object)
{
	CHECK(in_use == 1);
	return HIDDEN(object);
}
} // namespace

void *operator new(size_t size)
{
	return with_head(size, 16);
}

void operator delete(void *object) noexcept
{
	without_head(object, 16);
}

void *operator new(size_t size, std::align_val_t align)
{
	CHECK(align == WIDE);
	return with_head(size, ALIGN);
}

void operator delete(void *object, std::align_val_t align) noexcept
{
	CHECK(align == WIDE);
	without_head(object, ALIGN);
}

int main()
{
	check_ours();
	for (size_t size = 1; size < 100000; size *= 3) {
		operator delete(made(operator new(size)), size);
		operator delete[](made(operator new[](size)));
		operator delete[](made(operator new[](size)), size);
		operator delete(made(operator new(size, std::nothrow)), std::nothrow);
		operator delete[](made(operator new[](size, std::nothrow)), std::nothrow);
		operator delete(made(operator new(size, WIDE)), size, WIDE);
		operator delete[](made(operator new[](size, WIDE)), WIDE);
		operator delete[](made(operator new[](size, WIDE)), size, WIDE);
		operator delete[](made(operator new[](size, WIDE, std::nothrow)), WIDE,
				  std::nothrow);
		CHECK(!in_use);
	}
	operator delete(nullptr, size_t(10));
	return 0;
}
