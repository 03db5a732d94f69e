"""A priority queue with removal by key."""

import heapq
import itertools
from bisect import bisect
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class KeyedHeap(Generic[T]):
    """Smallest sort key first, equal ones in order of insertion.

    Removed entries stay in the heap as dead until they surface: `heapq` cannot remove from the middle, and a heap of
    our own with positions would run in Python instead of C. It is rebuilt once more than half of it is dead.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, str]] = []
        self._items: dict[str, tuple[int, T]] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: str) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[T]:
        return (item for _, item in self._items.values())

    def get(self, key: str) -> T | None:
        """Return the item of a key."""
        entry = self._items.get(key)
        return entry[1] if entry is not None else None

    def push(self, key: str, order: Any, item: T) -> None:
        """Add an item, or give it a new place."""
        number = next(self._numbers)
        self._items[key] = (number, item)
        heapq.heappush(self._heap, (order, number, key))
        if len(self._heap) > 2 * len(self._items) + 64:
            self._heap = [entry for entry in self._heap if self._is_live(entry)]
            heapq.heapify(self._heap)

    def peek(self) -> T | None:
        """Return the first item and leave it."""
        while self._heap and not self._is_live(self._heap[0]):
            heapq.heappop(self._heap)
        return self._items[self._heap[0][2]][1] if self._heap else None

    def first(self, most: int, wanted: Callable[[T], bool]) -> list[tuple[int, T]]:
        """Return the first items that are wanted, each with its place among all, from 1; it takes two looks at each."""
        live = [entry for entry in self._heap if self._is_live(entry)]
        chosen = heapq.nsmallest(most, (entry for entry in live if wanted(self._items[entry[2]][1])))
        if not chosen:
            return []
        # Sorting all of them to know a few places takes three times as long.
        between = [0] * (len(chosen) + 1)
        for entry in live:
            between[bisect(chosen, entry)] += 1
        places = itertools.accumulate(between)
        return [(place + 1, self._items[entry[2]][1]) for place, entry in zip(places, chosen, strict=False)]

    def pop(self) -> T | None:
        """Remove and return the first item; None when there is none."""
        item = self.peek()
        if item is not None:
            _, _, key = heapq.heappop(self._heap)
            del self._items[key]
        return item

    def remove(self, key: str) -> T | None:
        """Remove and return the item of a key; None when it is not there."""
        entry = self._items.pop(key, None)
        return entry[1] if entry is not None else None

    def _is_live(self, entry: tuple[Any, int, str]) -> bool:
        current = self._items.get(entry[2])
        return current is not None and current[0] == entry[1]
