"""Chance for the choice among equally good nodes that one decision does not take from the next."""

from __future__ import annotations

import random


class SeededByPod:
    """A random source that starts again for each pod, from the seed and the pod's name.

    With one stream for all, a pod that is left out, or that fits nowhere, would shift the numbers of every later pod:
    two runs that differ in one pod would differ in all ties after it.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = random.Random()

    def begin(self, pod: str) -> None:
        """Start the numbers of a pod (`namespace/name`)."""
        self._random.seed(f"{self._seed} {pod}")

    def random(self) -> float:
        """Return the next number, uniform in [0, 1)."""
        return self._random.random()
