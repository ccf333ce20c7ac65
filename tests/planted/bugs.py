# SPDX-License-Identifier: MIT
"""Bugs, and the test that finds each: see check-planted."""
from dataclasses import dataclass


@dataclass
class Bug:
    """One text of a file, and what is planted in its place."""
    name: str
    file: str
    before: str
    after: str
    test: str  # as `meson test` calls it, with further arguments; "tsan:" in a build with that sanitizer
    compiled: tuple = ()  # of a header: the sources that are compiled again


SHEAVES = "slab_mark(&cache->slab, MARK_SHEAVES);\n"
BUGS = [
    # src/os/
    Bug("option-accepts-overflow", "src/os/options/option.c", "\tunsigned long value = strtoul(digits, &end, 10);",
        "\tuint32_t value = (uint32_t)strtoul(digits, &end, 10);", "os"),
    Bug("option-read-as-letters", "src/os/options/option_debug.c", "|| is_option(word, length))", "|| false)", "os"),
    Bug("list-of-cpus-without-ranges", "src/os/linux/topology.c", "if (*list == '-' && ", "if (*list == ':' && ", "topology"),
    Bug("section-commits-before-its-last-store", "include/sheaf/section.h",
        '\t"{movq %[object], 32(%[m], %[t], 8)|mov [%[m] + 8*%[t] + 32], %[object]}\\n"                \\\n'
        '\t"{addl $1, %k[t]|add %k[t], 1}\\n"                                                          \\\n'
        '\t"{movl %k[t], (%[m])|mov [%[m]], %k[t]}\\n"\n',
        '\t"addl $1, %k[t]\\nmovl %k[t], (%[m])\\nmovq %[object], 24(%[m], %[t], 8)\\n"\n',
        "walk-called-mm-cid", ("src/cache/fast.c", "src/os/section.c")),
    Bug("counted-push-commits-twice", "src/os/linux/section_x86_64.h", '"movq %[w], " SHOWN "\\n"',
        '"movq %[w], (%[m])\\n" "movq %[w], " SHOWN "\\n"', "walk-counted", ("src/os/section.c", "src/cache/fast.c")),
    Bug("report-into-another-users-file", "src/os/report/sink.c", "return made->st_uid != geteuid()",
        "return made->st_uid == geteuid()", "report-rseq"),
    Bug("slot-unlocked-without-release", "src/os/section_c.h", "os_store_release(&(*slot)->lock, 0);",
        "os_store_relaxed(&(*slot)->lock, 0);", "tsan:storm-trylock",
        ("src/cache/fast.c", "src/os/section.c")),
    # src/page/
    Bug("dirty-pages-uncounted", "src/page/chunk.c", "\tchunk->nr_dirty += dirty;\n", "", "sim-slabs"),
    Bug("freed-pages-keep-their-slab", "src/page/page.c", "\tdisown(slab, order);\n\tgive_run(slab, order, RUN_USED);",
        "\tgive_run(slab, order, RUN_USED);", "page-2-nodes"),
    Bug("mapping-stays", "src/page/map.c", "\t\tmap_unmap(block, map_node_of(entry));\n", "", "page-2-nodes"),
    Bug("wide-run-over-others", "src/page/page.c", "\t\tif (range_chunk(range, i)->nr_free != CHUNK_PAGES)\n\t\t\treturn SIZE_MAX;",
        "\t\tif (!range_chunk(range, i)->nr_free)\n\t\t\treturn SIZE_MAX;", "page-1-node"),
    Bug("wide-search-without-progress", "src/page/page.c",
        "\t\tos_store_relaxed(&range->wide, (uint32_t)((from + looks) % places * n));\n", "\t\t;\n", "page-1-node"),
    # src/slab/
    Bug("empty-slab-leaves-uncounted", "src/slab/partial.c", "\tif (flag)\n\t\tleave_unused(node, slab);\n", "", "sim-slabs"),
    Bug("empty-slab-without-flag", "src/slab/give.c", "surplus ? 0 : SLAB_UNUSED", "0", "sim-slabs"),
    Bug("bits-beyond-the-last-object", "src/slab/pages.c", "~UINT64_C(0) >> (64 - n)", "~UINT64_C(0)", "sim-slabs"),
    Bug("slab-freed-while-in-use", "src/slab/give.c", "if (state & SLAB_LISTED && !slab_inuse(changed) &&",
        "if (state & SLAB_LISTED && slab_inuse(changed) <= 1 &&", "sim-slabs"),
    Bug("limit-of-a-cache-off-by-one", "src/slab/pages.c", "slab_held_bytes(cache) + bytes <= limit;",
        "slab_held_bytes(cache) + bytes < limit;", "slab-1-node"),
    Bug("lock-of-a-node-not-only-tried", "src/slab/partial.c", "if (!wait && !os_trylock(&node->lock))",
        "if (wait && !os_trylock(&node->lock))", "sim-shrink"),
    Bug("stray-not-counted-as-empty", "src/slab/partial.c", "os_fetch_or(&slab->state, SLAB_UNUSED);\n\tpartial_unused(node, slab);",
        "os_fetch_or(&slab->state, SLAB_UNUSED);", "sim-shrink"),
    Bug("owner-stays", "src/slab/owner.h", "\tif (number)\n\t\tos_store_relaxed(at, 0);\n", "", "group-rseq",
        ("src/cache/account.c", "src/cache/account_fast.c")),
    Bug("report-names-the-wrong-cache", "src/slab/wrong.c", "call, cache->name, object, other->name);",
        "call, other->name, object, cache->name);", "wrong-cache-rseq"),
    Bug("deferred-slab-without-mark", "src/percpu/nolock.c", "\t" + SHEAVES + "\tslab_list_deferred", "\tslab_list_deferred",
        "sim-marks"),
    Bug("owners-read-without-lock", "src/slab/owner.c", "\tos_lock(&owners_lock);\n\tif (os_load_acquire(",
        "\tif (os_load_acquire(", "group-structures-rseq"),
    Bug("taken-part-written-over-a-free", "src/slab/take.c", "\tos_fetch_and(bits, ~(found ^ rest));\n\treturn n;",
        "\tos_store_relaxed(bits, rest);\n\treturn n;", "sim-kernel-races"),
    Bug("returned-part-written-over-a-free", "src/slab/give.c",
        "\tbefore = os_fetch_or(slab_words(cache, group->slab) + group->word, group->bits);",
        "\tbefore = os_load_relaxed(slab_words(cache, group->slab) + group->word);\n"
        "\tos_store_relaxed(slab_words(cache, group->slab) + group->word, before | group->bits);", "sim-kernel-races"),
    Bug("nolock-free-waits-for-a-node", "src/slab/give.c", "\tif (!os_trylock(&node->lock)) {\n\t\tslab_defer",
        "\tos_lock(&node->lock);\n\tif (false) {\n\t\tslab_defer", "sim-kernel-races"),
    # src/debug/
    Bug("quarantine-reserves-too-little", "src/debug/quarantine.c", "!reserve_rest(ring, cache->size,",
        "!reserve_rest(ring, cache->object_size,", "sim-quarantine"),
    Bug("no-red-zone-in-front", "src/debug/layout.c", "debug->left = zones ? LEFT : 0;", "debug->left = 0;", "debug-letters"),
    Bug("guard-slots-of-half-a-chunk", "src/debug/guard.c", "return (1u << class) + 1;", "return (1u << class);",
        "guard-trylock-guarded"),
    Bug("traces-of-a-neighbour", "src/debug/traces.c", "group = &traces->groups[i - 1];", "group = &traces->groups[i];",
        "traces-trylock"),
    Bug("guarded-calls-without-time", "src/debug/traces.c", "\tdecay_see_time(track->when);\n", "", "container-rseq-sampled"),
    # src/percpu/
    Bug("sheaf-released-with-objects", "src/percpu/sheaf.c",
        "\tif (sheaf->size)\n\t\tsheaf_flush(cache, sheaf);\n\tsheaf_release", "\tsheaf_release",
        "sim-conservation --seeds 20"),
    Bug("drain-without-first-membarrier", "src/percpu/drain.c", "ended = end_sections();", "ended = true;", "sim-pauses"),
    Bug("drain-without-second-membarrier", "src/percpu/drain.c", "if (!reached || end_sections())", "if (true)", "sim-pauses"),
    Bug("drain-forgets-spares", "src/percpu/taken.c", "\tpush_taken(list, spare, row, TAKEN_SPARE);\n", "",
        "sim-conservation --seeds 20"),
    Bug("drain-forgets-the-barn", "src/percpu/drain.c", "flush_list(cache, barn_take_all(cache));", ";", "sim-rows"),
    Bug("drain-without-mark-of-the-unreached", "src/percpu/drain.c", "\tif (!reached)\n\t\t" + SHEAVES, "", "sim-pauses"),
    Bug("partial-sheaf-as-full", "src/percpu/sheaf.c", "\tif (sheaf->size == sheaf->capacity\n",
        "\tif (sheaf->size > sheaf->capacity / 2\n", "sim-prefill"),
    Bug("returned-sheaf-without-mark", "src/percpu/prefill.h", "(MARKS-F2). */\n\t" + SHEAVES, "(MARKS-F2). */\n", "sim-marks",
        ("src/cache/prefill.c",)),
    Bug("sheaf-in-a-childs-slot-without-mark", "src/percpu/fork.c",
        "!= (uintptr_t)&sheaf_bootstrap)\n\t\t\tslab_mark(&cache->slab, MARK_SHEAVES);", "!= (uintptr_t)&sheaf_bootstrap)\n\t\t\t;", "sim-marks"),
    Bug("sheaf-in-a-childs-barn-without-mark", "src/percpu/barn/barn_all.c", "\t\t\tslab_mark(&cache->slab, MARK_SHEAVES);", "\t\t\t;",
        "sim-marks"),
    Bug("full-sheaf-to-the-wrong-node", "src/percpu/remote.c", "if (sheaf_put_full(cache, node, full))",
        "if (sheaf_put_full(cache, os_node(), full))", "numa-rseq-2-nodes"),
    Bug("freed-objects-uncounted", "src/percpu/prefill.c", "\tstat_add(&cache->slab, STAT_free_fastpath, size);\n", "",
        "prefill-rseq-stats"),
    Bug("sheaf-in-hand-counted-down-twice", "src/percpu/percpu.c", "\tsheaf_hand_over(cache, spare);\n\tin_hand_end(in_hand);\n",
        "\tin_hand_end(in_hand);\n\tsheaf_hand_over(cache, spare);\n\tin_hand_end(in_hand);\n",
        "sim-conservation --seeds 20"),
    # src/grace/, src/rcu/
    Bug("grace-period-too-early", "src/grace/grace.c", "grace_advance(grace, number, now);\n\tserve_users",
        "grace_advance(grace, number + 1, now);\n\tserve_users", "sim-retired"),
    Bug("grace-period-never-wanted", "src/grace/grace.c", "\tos_store_relaxed(&grace->wanted, 1);\n", "", "rcu-rseq"),
    Bug("thread-changed-by-a-barrier", "src/grace/grace.c", "grace->ops.barrier();\n\t\tos_leave_program(call);",
        "grace->ops.barrier();\n\t\t(void)call;", "provider-rseq"),
    Bug("passed-objects-stay-counted", "src/rcu/queue.c", "\tos_store_relaxed(&queue->n_passed, n);\n", "", "sim-retired"),
    Bug("kfree-rcu-frees-at-once", "src/cache/kfree_rcu.c",
        "\tif (!grace) {\n\t\tcache_free_waited(1, &object, \"kfree_rcu\");",
        "\tif (true) {\n\t\tcache_free_waited(1, &object, \"kfree_rcu\");", "provider-rseq"),
    Bug("barrier-forgets-what-it-took", "src/percpu/drain.c",
        "\tfor (struct drain *drain = first; drain; drain = drain->next)\n\t\tdrain_queue_taken(drain);\n", "", "sim-barrier"),
    Bug("objects-of-other-nodes-stay-in-slots", "src/rcu/rcu_free.c", "\tos_store_relaxed(&rcu->remote, 1);\n", "", "sim-retired"),
    Bug("part-of-a-grown-capacity-lost", "src/rcu/after_grace.c", "\t\t\tsheaf_hand_over(cache, part);\n\t\t\treturn;",
        "\t\t\treturn;", "retired-rseq"),
    Bug("fork-without-locks-of-shards", "src/rcu/any.c",
        "\t\t\tact(&shard->lock, &shard->locked_by_fork);\n", "", "sim-marks"),
    Bug("flush-without-those-in-hand", "src/rcu/rcu_free.c", "\tfor (int turn = 0; turn < 2; turn++)\n\t\tin_hand",
        "\tfor (int turn = 0; turn < 0; turn++)\n\t\tin_hand", "sim-kernel-races"),
    # src/group/
    Bug("stock-gives-back-too-much", "src/group/stock.c", "(uint32_t)word);\n}", "(uint32_t)word + 64);\n}", "sim-groups"),
    Bug("limit-of-a-group-off-by-one", "src/group/charge.c", "return usage + bytes > limit;",
        "return usage + bytes >= limit;", "group-rseq"),
    Bug("charge-beyond-a-limit", "src/group/charge.c", "force == GROUP_TRY && exceeds(usage, bytes, hard)",
        "false", "sim-groups"),
    Bug("forced-charges-uncounted", "src/cache/group_stats.c", "\tout->forced = os_load_relaxed(&g->forced);\n", "", "group-rseq"),
    # src/cache/
    Bug("last-of-a-mixed-batch-lost", "src/cache/bulk.c", "\tif (!all_local(p, n, os_node())) {\n\t\tfor (unsigned int i = 0; i < n; i++)",
        "\tif (!all_local(p, n, os_node())) {\n\t\tfor (unsigned int i = n % 32 == 0; i < n; i++)", "kernel-bugs-layers-rseq-2-nodes"),
    Bug("barn-limit-not-taken-over", "src/cache/create.c",
        "\t\tsheaf_set_barn(&s->sheaf, args->barn_objects, args->barn_bytes);\n", "\t\t;\n", "container-rseq"),
    Bug("fork-locks-in-the-wrong-order", "src/cache/process.c", "\tos_lock(&groups.lock);\n\tos_lock(&stock_drains);\n",
        "\tos_lock(&stock_drains);\n\tos_lock(&groups.lock);\n", "sim-retired"),
    Bug("barn-limit-ignored", "src/cache/sizes.c", "\tsheaf_set_barn(&s->sheaf, objects, bytes);\n", "", "container-rseq"),
    Bug("assertion-changes-the-run", "src/cache/sizes.c", "os_assert(value <= size_kinds[which].most);",
        "os_assert(value <= size_kinds[which].most && size_exists(s, which));", "sim-conservation --seeds 6"),
    Bug("wrong-request-is-half-obeyed", "src/control/tune.c",
        "s && !question->error; s = s->next)\n\t\tif (is_tuned(question, s))",
        "s; s = s->next)\n\t\tif (is_tuned(question, s) && size_exists(s, SIZE_CAPACITY))", "tune-rseq"),
    Bug("shrinkers-called-by-who-may-not-wait", "src/cache/reclaim.c", "gfpflags_allow_blocking(flags) && shrinkers_exist()",
        "gfpflags_allow_blocking(flags) || shrinkers_exist()", "pressure-rseq"),
    Bug("refused-free-leaves-nothing", "src/cache/account_fast.c", "object, call)) {\n\t\tcache_leave();",
        "object, call)) {\n\t\t;", "group-misuse-rseq-hardened"),
    Bug("prefill-without-end", "src/cache/prefill.c", "\t\tsheaf = fail_prefill(s, sheaf);\n\tcache_leave();",
        "\t\tsheaf = fail_prefill(s, sheaf);", "leave-rseq"),
    # src/kmalloc/
    Bug("reserve-beyond-its-size", "src/kmalloc/mempool.c", "return nr < os_load", "return nr <= os_load", "sim-mempool"),
    Bug("krealloc-copies-what-was-added", "src/kmalloc/kfree.c", "r->size < block.size ? r->size : block.size,",
        "r->size < block.size ? r->size : r->size - block.size,", "kmalloc-rseq"),
    Bug("krealloc-copies-the-new-size", "src/kmalloc/kfree.c", "r->size < block.size ? r->size : block.size,",
        "r->size,", "kmalloc-rseq"),
    Bug("wake-up-lost", "src/kmalloc/mempool.c", "\t\tos_wake(&pool->turn);\n", "\t\t;\n", "sim-mempool"),
    # src/stats/, src/control/
    Bug("waiting-objects-uncounted", "src/stats/read.c", "\tout->rcu_pending_objects += waiting;\n", "", "rcu-rseq"),
    Bug("answer-without-its-error", "src/control/control.c", "\tos_channel_answer(question.error);\n", "", "control-rseq"),
    # maple/
    Bug("cache-of-nodes-not-tried-again", "maple/src/pool.c", "\tif (!load_acquire(&cache))\n\t\tmake_cache();\n", "",
        "maple-refusals-rseq"),
    Bug("gap-update-lost", "maple/src/gap.c", "\t\t*kept = gap;\n", "", "maple-behaviour-gaps-rseq"),
    Bug("join-forgets-the-empty-leaf-before", "maple/src/empty.c", "\t\tfollow_above(&st->lo, &way);\n\t\tlo->min = way.at[0].min;\n",
        "\t\tfollow_above(&st->lo, &way);\n", "maple-erase-rseq"),
]
