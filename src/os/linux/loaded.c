/* SPDX-License-Identifier: MIT */
/*
 * Keeps the object that contains this code loaded. libsheaf.so is linked that way, but the static
 * library may be in a shared object that its program closes while rseq_cs of some threads still
 * points into it.
 *
 * A unique symbol would not be enough: of several such objects, only the one that defines it first
 * stays loaded. Names are weak for C libraries that have these calls in a separate library. dlopen
 * is looked up at run time, because a reference to it causes a warning at each link with -static,
 * where it is never called.
 */
#include <dlfcn.h>
#include <link.h>

#include "os/machine.h"
#include "os/report/report.h"

#pragma weak dladdr1
#pragma weak dlsym

typedef void *open_fn(const char *name, int mode);

void os_stay_loaded(void)
{
	struct link_map *object = NULL;
	Dl_info info;
	open_fn *open;

	if (!dladdr1 || !dlsym ||
	    !dladdr1((void *)os_stay_loaded, &info, (void **)&object, RTLD_DL_LINKMAP))
		return;
	/* The program itself has no name, and is never unloaded. */
	if (!object->l_name[0])
		return;
	open = (open_fn *)dlsym(RTLD_DEFAULT, "dlopen");
	if (!open || !open(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
		os_report("cannot keep %s loaded: do not close it with dlclose()", object->l_name);
}
