# SPDX-License-Identifier: MIT
"""What `sheaf top` computes and draws: rates, order, sparklines, screens of any size."""
import unittest

from sheaf_tool.info import memory_lines
from sheaf_tool.process import Cache, Reading, _gauges
from sheaf_tool.rates import SPARK, Rates, frame, short, sparkline

EVENTS = ("alloc_fastpath", "alloc_slowpath", "free_fastpath", "free_slowpath",
          "replace_empty_main", "replace_full_main", "sheaf_refill", "sheaf_flush", "alloc_slab",
          "free_slab")


def cache(name: str = "a", identity: int = 1, in_use: int = 0, memory: int = 0,
          **counters: int) -> Cache:
    gauges = {"objects_in_use": in_use, "objects_in_sheaves": 0, "slab_bytes": memory}
    return Cache(name, identity, {}, gauges, {**dict.fromkeys(EVENTS, 0), **counters})


def reading(*caches: Cache) -> Reading:
    memory = dict.fromkeys(("committed_bytes", "used_bytes", "free_bytes", "mapped_bytes",
                            "peak_bytes", "decay_ms", "decay_set_by", "resident_bytes", "peak_resident_bytes"), 0)
    return Reading(1, "test", "rseq", "cpu_id", "", 2, 1, list(caches), memory)


class Rate(unittest.TestCase):
    def test_per_second(self) -> None:
        rates = Rates()
        rates.add(reading(cache(alloc_fastpath=100)), 10.0)
        rates.add(reading(cache(alloc_fastpath=300, alloc_slowpath=20, free_fastpath=50,
                                replace_empty_main=3, replace_full_main=1)), 12.0)
        self.assertEqual(rates.rows[1].rates, {
            "allocs/s": 110, "frees/s": 25, "misses/s": 2, "+slabs/s": 0, "-slabs/s": 0})

    def test_counter_never_goes_down(self) -> None:
        rates = Rates()
        for now, count in enumerate((100, 90, 95, 120)):
            rates.add(reading(cache(alloc_fastpath=count)), float(now))
            self.assertGreaterEqual(rates.rows[1].rates.get("allocs/s", 0), 0)
            self.assertEqual(rates.rows[1].counters["alloc_fastpath"], max(100, count))
        self.assertEqual(list(rates.rows[1].allocs), [0, 0, 20])

    def test_name_used_again_is_another_cache(self) -> None:
        rates = Rates()
        rates.add(reading(cache(identity=1, alloc_fastpath=1000)), 0.0)
        rates.add(reading(cache(identity=2, alloc_fastpath=7)), 1.0)
        self.assertEqual(list(rates.rows), [2])
        self.assertEqual(rates.rows[2].rates["allocs/s"], 7)

    def test_looks_at_one_time(self) -> None:
        rates = Rates()
        rates.add(reading(cache()), 5.0)
        rates.add(reading(cache()), 5.0)
        self.assertEqual(rates.rows[1].rates["allocs/s"], 0)


class Order(unittest.TestCase):
    def test_each_key(self) -> None:
        rates = Rates()
        rates.add(reading(cache("a", 1), cache("b", 2), cache("c", 3)), 0.0)
        rates.add(reading(cache("a", 1, in_use=5, memory=10, alloc_fastpath=1, free_fastpath=9),
                          cache("b", 2, in_use=9, memory=5, alloc_fastpath=5, free_fastpath=1,
                                replace_full_main=2),
                          cache("c", 3, in_use=1, memory=7, alloc_fastpath=3, free_fastpath=5,
                                replace_empty_main=9)), 1.0)
        for column, names in (("in use", "bac"), ("allocs/s", "bca"), ("frees/s", "acb"),
                              ("misses/s", "cba"), ("memory", "acb"), ("cache", "abc")):
            self.assertEqual("".join(row.cache.name for row in rates.sorted(column)), names)


class Drawing(unittest.TestCase):
    def test_sparkline(self) -> None:
        self.assertEqual(sparkline([0, 1, 2, 4, 8], 10), "▁▂▃▅█")
        self.assertEqual(sparkline([1, 2, 8], 2), "▃█")
        self.assertEqual(sparkline([0, 0], 5), SPARK[0] * 2)
        self.assertEqual(sparkline([], 5), "")
        self.assertEqual(sparkline([1], -3), "")

    def test_short_numbers(self) -> None:
        for value, text in ((0, "0"), (99999, "99999"), (100000, "100k"), (123456789, "123M"),
                            (5e12, "5000G")):
            self.assertEqual(short(value), text)

    def test_any_size(self) -> None:
        rates = Rates()
        rates.add(reading(*(cache(f"cache {i} " + "ä" * i, i) for i in range(1, 50))), 0.0)
        for width in (1, 5, 40, 80, 300):
            for height in (1, 2, 5, 24, 200):
                lines = frame(rates, "in use", width, height)
                self.assertLessEqual(len(lines), height)
                self.assertLessEqual(max(map(len, lines)), width)

    def test_all_rows_without_a_height(self) -> None:
        rates = Rates()
        rates.add(reading(*(cache(f"c{i}", i) for i in range(1, 50))), 0.0)
        self.assertEqual(sum(line.startswith("c") for line in frame(rates, "in use", 100, None)), 50)

    def test_memory_fits_a_narrow_terminal(self) -> None:
        found = reading(cache(memory=9999 << 10))
        found.memory = dict.fromkeys(found.memory, 9999 << 10)
        self.assertLessEqual(max(map(len, memory_lines(found))), 80)

    def test_no_escape_reaches_the_terminal(self) -> None:
        rates = Rates()
        rates.add(reading(cache("evil\x1b[2J\u202e", 1)), 0.0)
        self.assertNotRegex("".join(frame(rates, "in use", 100, 24)), "[\x00-\x1f\x7f\u202e]")

    def test_no_caches(self) -> None:
        rates = Rates()
        rates.add(reading(), 0.0)
        self.assertTrue(frame(rates, "in use", 80, 24))


class Gauges(unittest.TestCase):
    def counters(self, **counters: int) -> dict:
        return {**dict.fromkeys(EVENTS, 0), **counters}

    def test_in_use_and_parked(self) -> None:
        found = _gauges(self.counters(alloc_fastpath=100, free_fastpath=60, sheaf_refill=120,
                                      sheaf_flush=20, alloc_slab=3, free_slab=1), 128, 8192, 12288, 60)
        self.assertEqual(found, {
            "objects": 100, "objects_in_use": 40, "objects_in_sheaves": 60, "total_objects": 128,
            "slabs": 2, "slab_bytes": 8192, "waste_bytes": 8192 - 128 * 60, "peak_slab_bytes": 12288})

    def test_never_below_zero(self) -> None:
        found = _gauges(self.counters(free_fastpath=5, sheaf_flush=9, free_slab=1), 10, 0, 0, 16)
        self.assertEqual((min(found.values()), found["waste_bytes"]), (0, 0))
