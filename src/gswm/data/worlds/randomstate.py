"""Many of numpy's `RandomState` in parallel: the same numbers, for thousands of seeds at once.

The paper's ball worlds are defined by the draws of `numpy.random.RandomState(seed)`, with one seed
per episode. Here the generators are columns of one array. Each has its own cursor, since each
rejects different draws. numpy guarantees that this stream never changes.
"""

import math

import numpy as np
from jaxtyping import Float64, Int64, UInt32

LENGTH = 624
SHIFT = 397


class RandomStates:
    """The generators `RandomState(seed)` of every seed; draws have one row per generator.

    `which` selects the generators that draw; the others are unchanged.
    """

    def __init__(self, seeds: Int64[np.ndarray, " n"]) -> None:
        self.n = len(seeds)
        self.key = _seeded(seeds.astype(np.uint32))
        self.cursor = np.full(self.n, LENGTH)
        self.spare: Float64[np.ndarray, " n"] | None = None

    def words(
        self, count: int, which: Int64[np.ndarray, " m"] | None = None
    ) -> UInt32[np.ndarray, "m count"]:
        """The next `count` raw words."""
        which = np.arange(self.n) if which is None else which
        out = np.empty((len(which), count), np.uint32)
        for i in range(count):
            at = self.cursor[which]
            if (spent := at == LENGTH).any():
                self.key[:, which[spent]] = _twisted(self.key[:, which[spent]])
                at[spent] = 0
            out[:, i] = self.key[at, which]
            self.cursor[which] = at + 1
        return _tempered(out)

    def random(
        self, count: int, which: Int64[np.ndarray, " m"] | None = None
    ) -> Float64[np.ndarray, "m count"]:
        """`random_sample(count)`: 53 bits of two words each."""
        words = self.words(2 * count, which)
        high, low = words[:, 0::2] >> 5, words[:, 1::2] >> 6
        return (high * 67108864.0 + low) / 9007199254740992.0

    def uniform(
        self, low: float, high: float, count: int, which: Int64[np.ndarray, " m"] | None = None
    ) -> Float64[np.ndarray, "m count"]:
        """`uniform(low, high, count)`."""
        return low + (high - low) * self.random(count, which)

    def randn(self, count: int) -> Float64[np.ndarray, "n count"]:
        """`randn(count)` by the polar method, which generates two numbers and keeps the second."""
        columns = [] if self.spare is None else [self.spare]
        self.spare = None
        while len(columns) < count:
            columns += self._polar()
        if len(columns) > count:
            self.spare = columns.pop()
        return np.stack(columns, 1) if columns else np.empty((self.n, 0))

    def randint(self, options: int, count: int) -> Int64[np.ndarray, "n count"]:
        """`randint(0, options, count)`, and the indices of `choice` with replacement."""
        return np.stack([self._below(options) for _ in range(count)], 1)

    def permutation(self, length: int) -> Int64[np.ndarray, "n length"]:
        """`permutation(length)`; its first columns are `choice` without replacement."""
        out = np.tile(np.arange(length), (self.n, 1))
        rows = np.arange(self.n)
        for i in reversed(range(1, length)):
            j = self._below(i + 1)
            out[rows, i], out[rows, j] = out[rows, j], out[rows, i]
        return out

    def _below(self, options: int) -> Int64[np.ndarray, " n"]:
        """An integer from 0 to `options` - 1 for each; a single option uses no word."""
        out = np.zeros(self.n, np.int64)
        mask = (1 << (options - 1).bit_length()) - 1
        which = np.arange(self.n if mask else 0)
        while len(which):
            drawn = self.words(1, which)[:, 0] & np.uint32(mask)
            out[which] = drawn
            which = which[drawn >= options]
        return out

    def _polar(self) -> list[Float64[np.ndarray, " n"]]:
        """Two normal numbers for each."""
        points = np.empty((self.n, 2))
        square = np.empty(self.n)
        which = np.arange(self.n)
        while len(which):
            points[which] = drawn = 2.0 * self.random(2, which) - 1.0
            square[which] = r2 = drawn[:, 0] * drawn[:, 0] + drawn[:, 1] * drawn[:, 1]
            which = which[(r2 >= 1.0) | (r2 == 0.0)]
        # The C library's logarithm, as in RandomState: numpy's vector form differs in the last bit.
        log = np.fromiter(map(math.log, square.tolist()), float, self.n)
        scale = np.sqrt(-2.0 * log / square)
        return [scale * points[:, 1], scale * points[:, 0]]


def _seeded(seeds: UInt32[np.ndarray, " n"]) -> UInt32[np.ndarray, "624 n"]:
    key = np.empty((LENGTH, len(seeds)), np.uint32)
    key[0] = seeds
    for i in range(1, LENGTH):
        key[i] = (key[i - 1] ^ (key[i - 1] >> 30)) * np.uint32(1812433253) + np.uint32(i)
    return key


def _twisted(key: UInt32[np.ndarray, "624 m"]) -> UInt32[np.ndarray, "624 m"]:
    """The state of the next 624 words, in three runs that depend only on earlier values."""
    new = np.empty_like(key)
    head = LENGTH - SHIFT
    for start, stop in ((0, head), (head, 2 * head), (2 * head, LENGTH)):
        here = key[start:stop]
        after = (
            key[start + 1 : stop + 1] if stop < LENGTH else np.vstack([key[start + 1 :], new[:1]])
        )
        far = key[start + SHIFT : stop + SHIFT] if start == 0 else new[start - head : stop - head]
        mixed = (here & np.uint32(0x80000000)) | (after & np.uint32(0x7FFFFFFF))
        new[start:stop] = far ^ (mixed >> 1) ^ ((mixed & 1) * np.uint32(0x9908B0DF))
    return new


def _tempered(words: UInt32[np.ndarray, "m count"]) -> UInt32[np.ndarray, "m count"]:
    words = words ^ (words >> 11)
    words ^= (words << 7) & np.uint32(0x9D2C5680)
    words ^= (words << 15) & np.uint32(0xEFC60000)
    return words ^ (words >> 18)
