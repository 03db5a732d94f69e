"""What nodes can be sorted by; apart from `usage`, which takes longer to import than a command's help may."""

from __future__ import annotations

import enum


class SortKey(enum.StrEnum):
    """Values of `--sort-by`: largest first, but for names."""

    CPU = "cpu"
    MEMORY = "memory"
    PODS = "pods"
    REQUESTS = "requests"
    NAME = "name"
