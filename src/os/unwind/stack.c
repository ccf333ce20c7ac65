/* SPDX-License-Identifier: MIT */
/* The stack as text; see stack.h. */
#include "os/unwind/stack.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "os/report/report.h"
#include "os/unwind/symtab.h"
#include "os/unwind/unwind.h"

#if defined(DLFO_STRUCT_HAS_EH_DBASE)

/* Where the library's code is; not known if it is a part of another module. */
extern const char __start_sheaf_text[] __attribute__((weak, visibility("hidden")));
extern const char __stop_sheaf_text[] __attribute__((weak, visibility("hidden")));

/* A module's symbols, from its dynamic section. */
struct module_symbols {
	const ElfW(Sym) * table;
	const char *names;
	const uint32_t *hash; /* DT_GNU_HASH */
};

static bool is_ours(uintptr_t ip)
{
	return __start_sheaf_text && ip >= (uintptr_t)__start_sheaf_text &&
	       ip < (uintptr_t)__stop_sheaf_text;
}

/* The loader makes most of these pointers addresses; some processors' leave them relative. */
static const void *at(const struct link_map *map, ElfW(Addr) value)
{
	return (const void *)(value < map->l_addr ? value + map->l_addr : value);
}

static struct module_symbols symbols_of(const struct link_map *map)
{
	struct module_symbols symbols = {NULL, NULL, NULL};

	for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_SYMTAB)
			symbols.table = at(map, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			symbols.names = at(map, d->d_un.d_ptr);
		else if (d->d_tag == DT_GNU_HASH)
			symbols.hash = at(map, d->d_un.d_ptr);
	return symbols;
}

/* One beyond the last symbol. The table does not contain its length, but its last chain ends
 * there. */
static uint32_t nr_symbols(const struct module_symbols *symbols)
{
	const uint32_t *hash = symbols->hash, nr_buckets = hash[0], first = hash[1];
	const uint32_t *buckets = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof(*hash));
	uint32_t last = 0;

	for (uint32_t i = 0; i < nr_buckets; i++)
		if (buckets[i] > last)
			last = buckets[i];
	if (last < first)
		return first;
	while (!(buckets[nr_buckets + last - first] & 1))
		last++;
	return last + 1;
}

/* The exported function that contains an address; NULL: none, or a static function. */
static const char *exported_at(const struct link_map *map, uintptr_t ip, size_t *offset)
{
	struct module_symbols symbols = symbols_of(map);
	uintptr_t address = ip - map->l_addr;

	if (!symbols.table || !symbols.names || !symbols.hash)
		return NULL;
	for (uint32_t i = 0, n = nr_symbols(&symbols); i < n; i++) {
		const ElfW(Sym) *symbol = &symbols.table[i];

		if (!symtab_contains(symbol, address))
			continue;
		*offset = address - symbol->st_value;
		return symbols.names + symbol->st_name;
	}
	return NULL;
}

/* The name of the function that contains an address, in text if its module does not export it;
 * NULL: unknown. */
static const char *function_at(uintptr_t ip, size_t *offset, char *text, size_t size)
{
	struct dl_find_object found;
	const struct link_map *map;
	const char *name;

	if (!unwind_find_module(ip - 1, &found))
		return NULL;
	map = found.dlfo_link_map;
	name = exported_at(map, ip, offset);
	if (!name && symtab_find(*map->l_name ? map->l_name : "/proc/self/exe",
				 found.dlfo_map_start, ip - map->l_addr, text, size, offset))
		name = text;
	return name;
}

const char *os_stack_module(uintptr_t ip, size_t *offset)
{
	struct dl_find_object found;

	if (!unwind_find_module(ip - 1, &found))
		return NULL;
	*offset = ip - found.dlfo_link_map->l_addr;
	return *found.dlfo_link_map->l_name ? found.dlfo_link_map->l_name : program_invocation_name;
}

#else

static const char *function_at(uintptr_t ip, size_t *offset, char *text, size_t size)
{
	(void)ip, (void)offset, (void)text, (void)size;
	return NULL;
}

const char *os_stack_module(uintptr_t ip, size_t *offset)
{
	(void)ip, (void)offset;
	return NULL;
}

#endif

size_t os_stack_frame(char *text, size_t size, uintptr_t ip)
{
	const char *module, *function;
	char name[64];
	size_t offset = 0;
	int length;

	module = os_stack_module(ip, &offset);
	if (!module)
		return (size_t)snprintf(text, size, " [%#zx]", (size_t)ip);
	module = strrchr(module, '/') ? strrchr(module, '/') + 1 : module;
	function = function_at(ip, &offset, name, sizeof(name));
	length = snprintf(text, size, " %.40s(%.60s+%#zx)", module, function ? function : "",
			  offset);
	os_make_plain(text, (size_t)length < size ? (size_t)length : size - 1);
	return (size_t)length;
}

#if defined(DLFO_STRUCT_HAS_EH_DBASE) && defined(UNWIND_HERE)
/* Only the library's innermost functions are left out: a callback that the library called stays. */
unsigned int os_stack_walk(uintptr_t *ip, unsigned int n)
{
	struct unwind_frame frame = {0};
	unsigned int found = 0;

	UNWIND_HERE(frame);
	while (found < n && unwind_step(&frame))
		if (found || !is_ours(frame.pc - 1))
			ip[found++] = frame.pc;
	return found;
}
#else
unsigned int os_stack_walk(uintptr_t *ip, unsigned int n)
{
	(void)ip, (void)n;
	return 0;
}
#endif

size_t os_stack(char *text, size_t size)
{
	uintptr_t ip[OS_STACK_DEPTH] = {0};
	unsigned int n = os_stack_walk(ip, OS_STACK_DEPTH);
	size_t used = 0;

	if (!n)
		return 0;
	for (unsigned int i = 0; i < n; i++) {
		size_t length = os_stack_frame(text + used, size - used, ip[i]);

		if (used + length >= size)
			break;
		used += length;
	}
	text[used] = '\0';
	return used;
}
