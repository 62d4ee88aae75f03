"""How busy a holder keeps what it holds: utilization (0-1) by minute, from a few parameters and hashed noise.

Noise depends on (seed, stream, minute) alone, so a table does not depend on how the month is cut into tables.
"""

from __future__ import annotations

import numpy as np

from collectors.simulated.fleet import HOUR, MINUTE
from collectors.simulated.streams import ACTIVITIES

Floats = np.ndarray
_MIX = tuple(np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def noise(seed: int, stream: np.ndarray, number: np.ndarray) -> np.ndarray:
    """64 random bits for each (stream, number), by splitmix64."""
    first, second, third = _MIX
    mixed = stream.astype(np.uint64) * third + number.astype(np.uint64) * first + np.uint64(seed * int(second) % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * second
    mixed = (mixed ^ (mixed >> np.uint64(27))) * third
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def fraction(bits: np.ndarray, channel: int) -> Floats:
    """One of four independent values in [0, 1) in 64 random bits."""
    sixteen = (bits >> np.uint64(16 * channel)) & np.uint64(0xFFFF)
    return np.asarray(sixteen.astype(np.float64) / 65_536)


def utilization(seed: int, activity: np.ndarray, stream: np.ndarray, ts: np.ndarray, began: np.ndarray) -> Floats:
    """Of the share held. activity: places in ACTIVITIES; stream: its number; ts, began in ms."""
    busy = np.zeros(len(ts))
    for code, name in enumerate(ACTIVITIES):
        chosen = np.flatnonzero(activity == code)
        if len(chosen) and name in _SHAPES:
            busy[chosen] = _SHAPES[name](seed, stream[chosen], ts[chosen], began[chosen])
    return np.round(np.clip(busy, 0.0, 1.0), 4)


def _training(seed: int, stream: np.ndarray, ts: np.ndarray, began: np.ndarray) -> Floats:
    """About 0.87; nothing while it loads, a dip at every checkpoint, slow spells when data comes late."""
    own = noise(seed, stream, np.full(len(ts), 3))
    jitter = fraction(noise(seed, stream, ts // MINUTE), 0) - 0.5
    level = 0.79 + 0.16 * fraction(own, 0)
    minute = (ts - began) // MINUTE
    checkpoint = minute % (37 + 53 * fraction(own, 1)).astype(np.int64) >= 35
    late = fraction(noise(seed, stream, ts // (20 * MINUTE)), 1) < 0.05
    busy = (level + 0.06 * jitter) * np.where(checkpoint & (minute % 3 == 0), 0.15, 1.0) * np.where(late, 0.6, 1.0)
    return np.where(minute < 4, 0.0, busy)


def _notebook(seed: int, stream: np.ndarray, ts: np.ndarray, began: np.ndarray) -> Floats:
    """Bursts of a quarter of an hour, fewer the longer it is open; mostly nothing."""
    spell = noise(seed, stream, ts // (15 * MINUTE))
    hours = (ts - began) / HOUR
    active = fraction(spell, 0) < 0.03 + 0.45 * np.exp(-hours / 3)
    return np.where(active, 0.2 + 0.7 * fraction(noise(seed, stream, ts // MINUTE), 0), 0.0)


def _batch(seed: int, stream: np.ndarray, ts: np.ndarray, began: np.ndarray) -> Floats:
    """A level of its own between 0.35 and 0.8, unsteady."""
    own = 0.35 + 0.45 * fraction(noise(seed, stream, np.full(len(ts), 5)), 0)
    return own + 0.25 * (fraction(noise(seed, stream, ts // MINUTE), 0) - 0.5)


def _inference(seed: int, stream: np.ndarray, ts: np.ndarray, began: np.ndarray) -> Floats:
    """Load by day and night, less at weekends."""
    hour, weekday = ts / HOUR % 24, (ts // (24 * HOUR) + 3) % 7
    day = 0.5 - 0.5 * np.cos((hour - 3) / 24 * 2 * np.pi)
    level = 0.08 + 0.6 * day * np.where(weekday >= 5, 0.6, 1.0) * (0.7 + 0.5 * fraction(noise(seed, stream, began), 1))
    return level + 0.12 * (fraction(noise(seed, stream, ts // MINUTE), 0) - 0.5)


def _hung(seed: int, stream: np.ndarray, ts: np.ndarray, began: np.ndarray) -> Floats:
    """Trains for four hours, then hangs, waiting for a lost peer, until it is stopped."""
    return np.where(ts - began < 4 * HOUR, _training(seed, stream, ts, began), 0.0)


_SHAPES = {
    "training": _training,
    "notebook": _notebook,
    "batch": _batch,
    "inference": _inference,
    "hung": _hung,
}
MEMORY_HELD = {"free": 0.002, "training": 0.88, "notebook": 0.45, "batch": 0.6, "inference": 0.82, "hung": 0.88}
"""Part of the memory of its share that a holder fills, busy or idle."""
