/* SPDX-License-Identifier: MIT */
/* The stack as text; see stack.h. */
#include "os/stack.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

#include "os/linux/unwind.h"

#define NO_ALTERNATE SIZE_MAX

/* What is left of the alternate stack on which a signal handler runs: it may be too small for a
 * walk. */
static size_t alternate_room(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	stack_t own;

	if (sigaltstack(NULL, &own) || !(own.ss_flags & SS_ONSTACK))
		return NO_ALTERNATE;
	return here - (uintptr_t)own.ss_sp;
}

#if defined(DLFO_STRUCT_HAS_EH_DBASE)

/* Absent before glibc 2.35. */
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));
/* Where the library's code is; not known if it is a part of another module. */
extern const char __start_sheaf_text[] __attribute__((weak, visibility("hidden")));
extern const char __stop_sheaf_text[] __attribute__((weak, visibility("hidden")));

/* More than a walk and the formatting of its line take. */
#define WALK_BYTES 8192

struct stack_walk {
	uintptr_t *ip;
	unsigned int n, most;
	bool left; /* the library, for the program */
};

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

/* Only the library's innermost functions are left out: a callback that the library called stays. */
static void add_frame(struct stack_walk *walk, uintptr_t ip)
{
	if (!walk->left && is_ours(ip - 1))
		return;
	walk->left = true;
	walk->ip[walk->n++] = ip;
}

static _Unwind_Reason_Code walk_step(struct _Unwind_Context *context, void *argument)
{
	struct stack_walk *walk = argument;
	uintptr_t ip = _Unwind_GetIP(context);

	if (!ip || walk->n == walk->most)
		return _URC_END_OF_STACK;
	add_frame(walk, ip);
	return _URC_NO_REASON;
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
static const char *function_at(const struct link_map *map, uintptr_t ip, size_t *offset)
{
	struct module_symbols symbols = symbols_of(map);

	if (!symbols.table || !symbols.names || !symbols.hash)
		return NULL;
	for (uint32_t i = 0, n = nr_symbols(&symbols); i < n; i++) {
		const ElfW(Sym) *symbol = &symbols.table[i];
		uintptr_t start = map->l_addr + symbol->st_value;

		if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !symbol->st_shndx ||
		    ip <= start || ip - start > symbol->st_size)
			continue;
		*offset = ip - start;
		return symbols.names + symbol->st_name;
	}
	return NULL;
}

const char *os_stack_module(uintptr_t ip, size_t *offset)
{
	struct dl_find_object found;

	if (!_dl_find_object || _dl_find_object((void *)(ip - 1), &found))
		return NULL;
	*offset = ip - found.dlfo_link_map->l_addr;
	return *found.dlfo_link_map->l_name ? found.dlfo_link_map->l_name : program_invocation_name;
}

size_t os_stack_frame(char *text, size_t size, uintptr_t ip)
{
	struct dl_find_object found;
	const char *module, *function;
	size_t offset;

	module = os_stack_module(ip, &offset);
	if (!module || _dl_find_object((void *)(ip - 1), &found))
		return (size_t)snprintf(text, size, " [%#zx]", (size_t)ip);
	module = strrchr(module, '/') ? strrchr(module, '/') + 1 : module;
	function = function_at(found.dlfo_link_map, ip, &offset);
	return (size_t)snprintf(text, size, " %.40s(%.60s+%#zx)", module, function ? function : "",
				offset);
}

static bool has_room(void)
{
	return alternate_room() >= WALK_BYTES;
}

static _Unwind_Reason_Code stop_at_once(struct _Unwind_Context *context, void *unused)
{
	(void)context, (void)unused;
	return _URC_END_OF_STACK;
}

void os_stack_prepare(void)
{
	struct dl_find_object found;

	/* In a program with lazy binding, this also resolves both functions. */
	if (_dl_find_object && !_dl_find_object((void *)(uintptr_t)os_stack_prepare, &found))
		_Unwind_Backtrace(stop_at_once, NULL);
}

#ifdef UNWIND_HERE
/* Walk by kept rows. False: a part of the stack has no row. */
static __attribute__((noinline)) bool walk_by_rows(struct stack_walk *walk)
{
	enum unwind_result result;
	struct unwind_frame frame;

	UNWIND_HERE(frame);
	result = unwind_step(&frame);
	while (result == UNWIND_STEP && walk->n < walk->most) {
		add_frame(walk, frame.pc);
		result = unwind_step(&frame);
	}
	return result != UNWIND_UNKNOWN;
}
#else
static bool walk_by_rows(struct stack_walk *walk)
{
	(void)walk;
	return false;
}
#endif

unsigned int os_stack_walk(uintptr_t *ip, unsigned int n)
{
	struct stack_walk walk = {.ip = ip, .most = n};

	if (!_dl_find_object)
		return 0;
	if (walk_by_rows(&walk))
		return walk.n;
	walk = (struct stack_walk){.ip = ip, .most = n};
	if (!has_room())
		return 0;
	_Unwind_Backtrace(walk_step, &walk);
	return walk.n;
}

/* The unwinder says so of the function that the signal interrupted. */
static _Unwind_Reason_Code find_handler(struct _Unwind_Context *context, void *found)
{
	int interrupted = 0;

	if (!_Unwind_GetIPInfo(context, &interrupted) || interrupted) {
		*(bool *)found = interrupted;
		return _URC_END_OF_STACK;
	}
	return _URC_NO_REASON;
}

bool os_stack_has_handler(void)
{
	size_t room = alternate_room();
	bool found = false;

	if (!_dl_find_object || room < WALK_BYTES)
		return room != NO_ALTERNATE;
	_Unwind_Backtrace(find_handler, &found);
	return found;
}

size_t os_stack(char *text, size_t size)
{
	uintptr_t ip[OS_STACK_DEPTH];
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

#else

bool os_stack_has_handler(void)
{
	return alternate_room() != NO_ALTERNATE;
}

unsigned int os_stack_walk(uintptr_t *ip, unsigned int n)
{
	(void)ip, (void)n;
	return 0;
}

size_t os_stack_frame(char *text, size_t size, uintptr_t ip)
{
	return (size_t)snprintf(text, size, " [%#zx]", (size_t)ip);
}

const char *os_stack_module(uintptr_t ip, size_t *offset)
{
	(void)ip, (void)offset;
	return NULL;
}

size_t os_stack(char *text, size_t size)
{
	(void)text, (void)size;
	return 0;
}

void os_stack_prepare(void)
{
}

#endif
