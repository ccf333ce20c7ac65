# SPDX-License-Identifier: MIT
"""Statistics: known intervals, and properties that must hold for any samples."""
import random
import unittest

import pytest

from sheaf_tool.stats import Estimate, has_interval, median, ratio


class Median(unittest.TestCase):
    def test_odd_and_even(self) -> None:
        self.assertEqual(median([3, 1, 2]).value, 2)
        self.assertEqual(median([4, 1, 2, 3]).value, 2.5)

    def test_single_sample(self) -> None:
        self.assertEqual(median([5.0]), Estimate(5.0, 5.0, 5.0))

    def test_known_ranks(self) -> None:
        """The 95 % interval's ranks for n samples, from tables of the sign test."""
        for n, rank in [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8)]:
            found = median(range(1, n + 1))
            self.assertEqual((found.low, found.high), (rank, n + 1 - rank), n)

    def test_six_samples_are_needed(self) -> None:
        self.assertFalse(has_interval(5))
        self.assertTrue(has_interval(6))

    def test_covers_the_true_median(self) -> None:
        generator = random.Random(7)
        hits = 0
        for _ in range(1000):
            found = median([generator.lognormvariate(0, 1) for _ in range(11)])
            hits += found.low <= 1 <= found.high
        self.assertGreater(hits, 950)
        self.assertLess(hits, 1000)


class Ratio(unittest.TestCase):
    def test_constant_ratio_has_no_width(self) -> None:
        ours = [1.0, 5.0, 2.0, 9.0, 3.0, 4.0, 7.0]
        self.assertEqual(ratio(ours, [2 * one for one in ours]), Estimate(0.5, 0.5, 0.5))

    def test_repetitions_stay_paired(self) -> None:
        """A slow repetition slows both: resampling them apart would give a wide interval."""
        ours = [1.0, 1.0, 1.0, 10.0, 10.0, 10.0, 10.0]
        theirs = [1.02, 0.98, 1.0, 10.2, 9.8, 10.0, 10.1]
        found = ratio(ours, theirs)
        self.assertGreater(found.low, 0.9)
        self.assertLess(found.high, 1.1)

    def test_interval_holds_the_value(self) -> None:
        generator = random.Random(3)
        ours = [generator.gauss(5, 1) for _ in range(15)]
        theirs = [generator.gauss(8, 1) for _ in range(15)]
        found = ratio(ours, theirs)
        self.assertLess(found.low, found.value)
        self.assertLess(found.value, found.high)

    def test_repeatable(self) -> None:
        ours, theirs = [1.0, 2.0, 4.0, 3.0], [2.0, 3.0, 3.0, 5.0]
        self.assertEqual(ratio(ours, theirs), ratio(ours, theirs))

    def test_lengths_must_agree(self) -> None:
        with self.assertRaises(ValueError):
            ratio([1.0, 2.0], [1.0])


class AgainstScipy(unittest.TestCase):
    """Where scipy is installed, its figures are the same."""

    def setUp(self) -> None:
        pytest.importorskip("numpy")
        self.scipy = pytest.importorskip("scipy.stats")

    def test_ranks_of_the_median(self) -> None:
        for n in range(6, 60):
            rank = int(self.scipy.binom.ppf(0.025, n, 0.5))
            found = median(range(1, n + 1))
            self.assertEqual((found.low, found.high), (rank, n + 1 - rank), n)

    def test_bootstrap_of_a_ratio(self) -> None:
        """It uses other resamples: the ends differ by less than the width of the interval."""
        import numpy

        def medians(a: numpy.ndarray, b: numpy.ndarray, axis: int = -1) -> numpy.ndarray:
            return numpy.median(a, axis=axis) / numpy.median(b, axis=axis)

        generator = random.Random(3)
        for n in (15, 25, 40):
            ours, theirs = ([generator.lognormvariate(0, 0.1) for _ in range(n)] for _ in range(2))
            found = ratio(ours, theirs)
            low, high = self.scipy.bootstrap((ours, theirs), medians, paired=True, n_resamples=9999,
                                             method="percentile", random_state=1).confidence_interval
            for one, other in ((found.low, low), (found.high, high)):
                self.assertLess(abs(one - other), (found.high - found.low) / 10, n)
