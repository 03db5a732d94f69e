"""Documents that programs read: what an older version wrote of them is still there."""

from __future__ import annotations

from typing import Any


def lost(former: Any, latest: Any, at: str = "$") -> list[str]:
    """Where a key or a value of the one is not in the other."""
    if isinstance(former, dict) and isinstance(latest, dict):
        gone = [f"{at}.{key}" for key in former if key not in latest]
        return gone + [each for key in former.keys() & latest for each in lost(former[key], latest[key], f"{at}.{key}")]
    if isinstance(former, list) and isinstance(latest, list) and len(former) == len(latest):
        pairs = enumerate(zip(former, latest, strict=True))
        return [each for number, pair in pairs for each in lost(*pair, f"{at}[{number}]")]
    return [] if former == latest else [at]
