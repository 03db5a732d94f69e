"""ImageLocality: prefer nodes that have the pod's images already (plugins/imagelocality/image_locality.go)."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from scheduler import framework as fw

MIB = 1024 * 1024
MIN_BYTES = 23 * MIB
MAX_BYTES_PER_CONTAINER = 1000 * MIB


class ImageLocality(fw.ScorePlugin, fw.LocalPlugin):
    """Score by the size of images present, spread-weighted so that a rare image does not draw everything to one
    node."""

    name = "ImageLocality"

    def __init__(self, args: Any, context: fw.PluginContext) -> None:
        """Take no args."""
        self._counts_volumes = context.kubernetes.counts_image_volumes
        self._shares_with_volumes = context.kubernetes.shares_with_image_volumes

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Return 0..100 between 23 MiB and 1000 MiB per container, since 1.37 also per image of a volume."""
        if pod.spec.lists_much:
            state.work.charge(len(self._images(pod)) * (1 + len(rows) // 200), "images x nodes")
        total = np.zeros(len(rows), dtype=np.int64)
        nodes = len(view.rows)
        any_present = False
        for name in self._images(pod):
            image = view.image(name)
            if image is not None:
                any_present = True
                spread = image.nodes / nodes
                total += image.present[rows] * np.int64(int(float(image.size) * spread))
        if not any_present:
            return total
        sharing = len(pod.spec.images) + (len(pod.spec.image_volumes) if self._shares_with_volumes else 0)
        max_bytes = MAX_BYTES_PER_CONTAINER * sharing
        clamped = np.clip(total, MIN_BYTES, max_bytes)
        return 100 * (clamped - MIN_BYTES) // (max_bytes - MIN_BYTES)

    def _images(self, pod: fw.PodInfo) -> tuple[str, ...]:
        """Return the images that count."""
        spec = pod.spec
        return (*spec.images, *spec.image_volumes) if self._counts_volumes and spec.image_volumes else spec.images

    def locality(self, pod: fw.PodInfo, view: fw.NodeView) -> fw.Locality:
        """Scores follow from the node's images, their sizes, and the share of the nodes that hold them."""
        names, spec = self._images(pod), pod.spec

        def version(now: fw.NodeView) -> Hashable:
            images = [now.image(name) for name in names]
            return tuple([None if image is None else (image.size, image.nodes) for image in images])

        return fw.Locality(
            scores=fw.DependsOn.NODE, version=version, part=fw.part_of(names, len(spec.image_volumes), len(spec.images))
        )
