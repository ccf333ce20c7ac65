/* SPDX-License-Identifier: MIT */
/*
 * Keeps the object that contains this code loaded. libsheaf.so is linked that way, but the static
 * library may be in a shared object that its program closes while rseq_cs of some threads still
 * points into it.
 *
 * What the linker noted in this object tells whether it is to be kept: finding it by name takes the
 * loader's lock and memory from malloc().
 *
 * A unique symbol would not be enough: of several such objects, only the one that defines it first
 * stays loaded. Names are weak for C libraries that have these calls in a separate library. dlopen
 * is looked up at run time, because a reference to it causes a warning at each link with -static,
 * where it is never called.
 */
#include <dlfcn.h>
#include <link.h>

#include "os/linux/linux.h"
#include "os/machine.h"
#include "os/report/report.h"

#pragma weak dladdr1
#pragma weak dlsym

#ifndef DF_1_PIE
#define DF_1_PIE 0x08000000 /* newer than some C libraries */
#endif

/* Of this object; a static program may have none. */
extern ElfW(Dyn) _DYNAMIC[] __attribute__((weak, visibility("hidden")));

bool os_is_static(void)
{
	return !_DYNAMIC;
}

typedef void *open_fn(const char *name, int mode);

/* libsheaf.so is linked so, and a program is never unloaded. */
static bool stays_anyway(void)
{
	for (const ElfW(Dyn) *d = _DYNAMIC; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_FLAGS_1)
			return d->d_un.d_val & (DF_1_NODELETE | DF_1_PIE);
	return os_is_static();
}

void os_stay_loaded(void)
{
	struct link_map *object = NULL;
	Dl_info info;
	open_fn *open;

	if (stays_anyway() || !dladdr1 || !dlsym ||
	    !dladdr1((void *)os_stay_loaded, &info, (void **)&object, RTLD_DL_LINKMAP))
		return;
	/* The program itself has no name, and is never unloaded. */
	if (!object->l_name[0])
		return;
	open = (open_fn *)dlsym(RTLD_DEFAULT, "dlopen");
	if (!open || !open(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
		os_report("cannot keep %s loaded: do not close it with dlclose()", object->l_name);
}
