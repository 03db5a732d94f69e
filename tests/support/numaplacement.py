"""The zones of containers as an agent publishes them: the other side of what NodeResourceTopologyMatch reads."""

from collections.abc import Mapping

from scheduler.plugins.noderesourcetopologymatch.placement import container_hash

LETTERS = [chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"&<>\\']


def published_zones(containers: Mapping[tuple[str, str, str], int], zones: int) -> tuple[str, dict[int, str]]:
    """Return the value of the object's attribute, and of those of zones that have one.

    Args:
        containers: the number of the zone by namespace, pod and container.
        zones: how many the node has. The first one is taken for the fullest, which has no attribute.
    """
    places = {container_hash(*names): zone for names, zone in containers.items()}
    order = sorted(places)
    vectors = {}
    for zone in range(1, zones):
        offsets = [index for index, key in enumerate(order) if places[key] == zone]
        if offsets:
            steps = [after - before for before, after in zip([0, *offsets], offsets, strict=False)]
            vectors[zone] = "".join(map(_encoded, steps))
    return f"npv0v001::ve=leb89::cc={len(places)}::nn={zones}::bn=0", vectors


def _encoded(number: int) -> str:
    assert number < 1664
    return LETTERS[number] if number < 64 else LETTERS[64 + (number - 64) // 64] + LETTERS[(number - 64) % 64]
