/* SPDX-License-Identifier: MIT */
/* Reports at the first use: which options this machine cannot follow, and, with the option verbose,
 * what runs; see os/machine.h. */
#include "os/machine.h"
#include "os/options/options.h"
#include "os/report/report.h"

static void report_unavailable(void)
{
	if (os.cpu_beyond)
		os_report("CPU numbers go up to %u, and the library's tables end at %u: several "
			  "CPUs share sheaves, on the trylock backend",
			  os.cpu_beyond, os.nr_cpus - 1);
	if (os.unread)
		os_report("at the first use there was no descriptor or memory to read /sys: until "
			  "the process ends, the library sees %u CPU%s and %u node%s. Create a "
			  "cache before descriptors run out",
			  os.nr_cpus, os_plural(os.nr_cpus), os.nr_nodes, os_plural(os.nr_nodes));
	if (os.obstacle && os_options.backend_rseq && !os_options.backend_trylock)
		os_report("backend=rseq is not available: %s; using the trylock backend",
			  os.obstacle);
	if (os_options.index_mm_cid && os.id_offset == RSEQ_CPU_ID)
		os_report("SHEAF_OPTIONS: index=mm_cid is ignored: %s",
			  os.backend == OS_BACKEND_TRYLOCK ? "the trylock backend runs"
			  : os.nr_cpu_nodes > 1		   ? "several nodes have CPUs"
							   : "the kernel does not provide it");
	if (os_options.strict_numa && os.nr_nodes == 1)
		os_report("SHEAF_OPTIONS: slab_strict_numa is ignored: there is one memory node");
	if (os_options.numa_fake > os.nr_nodes)
		os_report("SHEAF_OPTIONS: numa=fake=%u: there are %u CPU%s and %u node%s",
			  os_options.numa_fake, os.nr_cpus, os_plural(os.nr_cpus), os.nr_nodes,
			  os_plural(os.nr_nodes));
}

static void report_setup(void)
{
	char options[256];

	os_options_text(options, sizeof(options));
	os_report(
		"using the %s backend%s%s; %u node%s, %u CPU%s (%u allowed); options in force: %s",
		os.backend == OS_BACKEND_RSEQ ? "rseq" : "trylock",
		os.obstacle		      ? ": "
		: os.id_offset == RSEQ_CPU_ID ? ", with sheaves per cpu_id"
					      : ", with sheaves per mm_cid",
		os.obstacle ? os.obstacle : "", os.nr_nodes, os_plural(os.nr_nodes), os.nr_cpus,
		os_plural(os.nr_cpus), os_within_quota(os.nr_allowed), options);
}

void os_report_start(void)
{
	if (os_options.help)
		os_options_help();
	report_unavailable();
	if (os_options.verbose)
		report_setup();
}
