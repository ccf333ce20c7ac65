/* SPDX-License-Identifier: MIT */
/* A CPU's sheaves: how main is replaced when it is empty or full, and what waits for grace periods.
 * See kernel.h. */
#include "cache/process.h"
#include "os/atomic.h"
#include "page/pool.h"
#include "scale/src/kernel/kernel.h"
#include "scale/src/periods.h"

static struct kernel_cpu *this_cpu(struct kernel_cache *c)
{
	return &c->cpus[os_cpu()];
}

static struct kernel_barn *this_barn(struct kernel_cache *c)
{
	return &c->barns[os_node()];
}

static struct kernel_sheaf *new_sheaf(struct kernel_cache *c)
{
	struct kernel_cpu *cpu = this_cpu(c);
	struct kernel_sheaf *sheaf = cpu->unused;

	if (!sheaf)
		return pool_alloc(sizeof(*sheaf) + c->rules.capacity * sizeof(void *));
	cpu->unused = sheaf->next;
	return sheaf;
}

static void delete_sheaf(struct kernel_cache *c, struct kernel_sheaf *sheaf)
{
	struct kernel_cpu *cpu = this_cpu(c);

	sheaf->size = 0;
	sheaf->next = cpu->unused;
	cpu->unused = sheaf;
}

static void flush(struct kernel_cache *c, struct kernel_sheaf *sheaf)
{
	while (sheaf->size)
		kernel_slabs_free(c, sheaf->objects[--sheaf->size]);
}

static bool is_full(const struct kernel_cache *c, const struct kernel_sheaf *sheaf)
{
	return sheaf->size == c->rules.capacity;
}

/* --- alloc ---------------------------------------------------------------------------------- */

/* A filled sheaf becomes main; the old main makes room. */
static void install_full(struct kernel_cache *c, struct kernel_cpu *cpu, struct kernel_barn *barn,
			 struct kernel_sheaf *filled)
{
	struct kernel_sheaf *main = cpu->main;

	if (!main->size) {
		cpu->main = filled;
		if (!cpu->spare && c->rules.keeps_main)
			cpu->spare = main;
		else
			kernel_barn_put(barn, main);
	} else if (!cpu->spare) {
		cpu->spare = filled;
	} else if (!cpu->spare->size) {
		kernel_barn_put(barn, cpu->spare);
		cpu->spare = filled;
	} else {
		kernel_barn_put(barn, filled);
	}
}

/* Called and returns with preemption off. */
static bool replace_empty_main(struct kernel_cache *c, struct kernel_cpu *cpu)
{
	struct kernel_barn *barn = this_barn(c);
	struct kernel_sheaf *sheaf = cpu->spare;

	if (sheaf && sheaf->size) {
		cpu->spare = cpu->main;
		cpu->main = sheaf;
		return true;
	}
	sheaf = kernel_barn_replace_empty(barn, cpu->main);
	if (sheaf) {
		cpu->main = sheaf;
		return true;
	}
	if (c->rules.atomic && !c->rules.refills)
		return false;
	sheaf = cpu->spare;
	cpu->spare = NULL;
	if (!sheaf)
		sheaf = kernel_barn_get_empty(barn);
	kernel_go();
	if (!sheaf)
		sheaf = new_sheaf(c);
	if (sheaf)
		sheaf->size = kernel_slabs_refill(c, sheaf->objects, c->rules.capacity);
	kernel_stay();
	if (sheaf && !is_full(c, sheaf)) {
		flush(c, sheaf);
		delete_sheaf(c, sheaf);
		sheaf = NULL;
	}
	if (sheaf)
		install_full(c, cpu, barn, sheaf);
	return sheaf && cpu->main->size;
}

/* --- free ----------------------------------------------------------------------------------- */

/* An empty sheaf becomes main; the old main goes to the barn or becomes the spare. */
static void install_empty(struct kernel_cache *c, struct kernel_cpu *cpu, struct kernel_barn *barn,
			  struct kernel_sheaf *empty)
{
	if (!cpu->spare) {
		cpu->spare = cpu->main;
		cpu->main = empty;
	} else if (!is_full(c, cpu->main)) {
		kernel_barn_put(barn, empty);
	} else {
		kernel_barn_put(barn, cpu->main);
		cpu->main = empty;
	}
}

static void replace_full_main(struct kernel_cache *c, struct kernel_cpu *cpu)
{
	struct kernel_barn *barn = this_barn(c);
	struct kernel_sheaf *sheaf = cpu->spare;
	bool too_big = false;

	if (sheaf && !is_full(c, sheaf)) {
		cpu->spare = cpu->main;
		cpu->main = sheaf;
		return;
	}
	if (!sheaf) {
		sheaf = kernel_barn_get_empty(barn);
	} else {
		sheaf = kernel_barn_replace_full(barn, cpu->main, &too_big);
		if (sheaf) {
			cpu->main = sheaf;
			return;
		}
	}
	if (too_big) {
		sheaf = cpu->spare;
		cpu->spare = NULL;
		kernel_go();
		flush(c, sheaf);
		kernel_stay();
	}
	if (!sheaf)
		sheaf = new_sheaf(c);
	if (sheaf)
		install_empty(c, cpu, barn, sheaf);
}

/* --- grace periods -------------------------------------------------------------------------- */

/* What the callback of a sheaf does. */
static void call_back(struct kernel_cache *c, struct kernel_sheaf *sheaf)
{
	struct kernel_barn *barn = &c->barns[sheaf->node];

	if (kernel_barn_put_full(barn, sheaf))
		return;
	flush(c, sheaf);
	if (!kernel_barn_put_empty(barn, sheaf))
		delete_sheaf(c, sheaf);
}

/* Run the CPU's callbacks whose grace period is over. */
static void call_back_due(struct kernel_cache *c, struct kernel_cpu *cpu)
{
	struct kernel_sheaf *sheaf;

	while ((sheaf = cpu->first_due) && sheaf->due <= os_now()) {
		cpu->first_due = sheaf->next;
		call_back(c, sheaf);
	}
}

static void wait_for_grace(struct kernel_cpu *cpu, struct kernel_sheaf *sheaf)
{
	sheaf->due = periods_end();
	sheaf->node = os_node();
	sheaf->next = NULL;
	*(cpu->first_due ? &cpu->last_due->next : &cpu->first_due) = sheaf;
	cpu->last_due = sheaf;
}

void kernel_free_rcu(struct kernel_cache *c, void *object)
{
	struct kernel_cpu *cpu;
	struct kernel_sheaf *sheaf;

	kernel_stay();
	cpu = this_cpu(c);
	kernel_work();
	sheaf = cpu->rcu_free;
	if (!sheaf && cpu->spare && !cpu->spare->size) {
		sheaf = cpu->spare;
		cpu->spare = NULL;
	}
	if (!sheaf)
		sheaf = kernel_barn_get_empty(this_barn(c));
	if (!sheaf)
		sheaf = new_sheaf(c);
	if (sheaf) {
		sheaf->objects[sheaf->size++] = object;
		cpu->rcu_free = is_full(c, sheaf) ? NULL : sheaf;
		if (is_full(c, sheaf))
			wait_for_grace(cpu, sheaf);
	}
	kernel_go();
}

/* --- calls ---------------------------------------------------------------------------------- */

void *kernel_alloc(struct kernel_cache *c)
{
	struct kernel_cpu *cpu;
	void *object = NULL;

	kernel_stay();
	cpu = this_cpu(c);
	kernel_work();
	call_back_due(c, cpu);
	if (cpu->main->size || replace_empty_main(c, cpu))
		object = cpu->main->objects[--cpu->main->size];
	kernel_go();
	return object ? object : kernel_slabs_alloc(c);
}

void kernel_free(struct kernel_cache *c, void *object)
{
	struct kernel_cpu *cpu;
	bool done;

	kernel_stay();
	cpu = this_cpu(c);
	kernel_work();
	done = page_node(object) == os_node();
	if (done && is_full(c, cpu->main))
		replace_full_main(c, cpu);
	done = done && !is_full(c, cpu->main);
	if (done)
		cpu->main->objects[cpu->main->size++] = object;
	kernel_go();
	if (!done)
		kernel_slabs_free(c, object);
}

/* --- making --------------------------------------------------------------------------------- */

static unsigned int capacity_for(size_t size)
{
	return size >= OS_PAGE ? 4 : size >= 1024 ? 12 : size >= 256 ? 28 : 60;
}

struct kernel_cache *kernel_create(size_t size, const struct kernel_rules *rules)
{
	const struct slab_request request = {
		.name = "kernel", .object_size = (uint32_t)size, .align = sizeof(void *)};
	struct kernel_cache *c = caches_ready() ? pool_alloc(sizeof(*c)) : NULL;

	if (!c || !slab_cache_init(&c->slab, &request))
		return NULL;
	c->rules = *rules;
	if (rules->over_tiers)
		c->tiers = cpu_slab_create(size, 0);
	if (rules->over_tiers && !c->tiers)
		return NULL;
	if (!c->rules.capacity)
		c->rules.capacity = capacity_for(size);
	c->cpus = pool_alloc(os.nr_cpus * sizeof(*c->cpus));
	c->barns = pool_alloc(os.nr_nodes * sizeof(*c->barns));
	if (!c->cpus || !c->barns)
		return NULL;
	for (unsigned int node = 0; node < os.nr_nodes; node++)
		os_lock_init(&c->barns[node].lock, OS_RANK_QUEUE);
	for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++) {
		c->cpus[cpu].main = pool_alloc(sizeof(struct kernel_sheaf) +
					       c->rules.capacity * sizeof(void *));
		if (!c->cpus[cpu].main)
			return NULL;
	}
	return c;
}
