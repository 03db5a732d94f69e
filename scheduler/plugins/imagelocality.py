"""ImageLocality: prefer nodes that have the pod's images already (plugins/imagelocality/image_locality.go)."""

from typing import Any

from scheduler import framework as fw

MIB = 1024 * 1024
MIN_BYTES = 23 * MIB
MAX_BYTES_PER_CONTAINER = 1000 * MIB


class ImageLocality(fw.ScorePlugin, fw.ScoreRule):
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
            state.work.charge(len(self._images(pod.spec)) * (1 + len(rows) // 200), "images x nodes")
        return fw.scores_of(self.score_rule, pod.spec, view, rows)

    def score_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Return the rule: the bytes that a node has, each image's weighed by the share of the nodes that hold it."""
        images = [image for name in self._images(spec) if (image := nodes.image(name)) is not None]
        weighed = [(holds, int(float(size) * (holders / nodes.count))) for holds, size, holders in images]
        if not weighed:
            return lambda node: 0
        sharing = len(spec.images) + (len(spec.image_volumes) if self._shares_with_volumes else 0)
        max_bytes = MAX_BYTES_PER_CONTAINER * sharing

        def score(node: fw.Node) -> Any:
            total: Any = 0
            for holds, amount in weighed:
                total = total + holds(node) * amount
            clamped = nodes.at_most(nodes.at_least(total, MIN_BYTES), max_bytes)
            return 100 * (clamped - MIN_BYTES) // (max_bytes - MIN_BYTES)

        return score

    def _images(self, spec: fw.SpecInfo) -> tuple[str, ...]:
        """Return the images that count."""
        return (*spec.images, *spec.image_volumes) if self._counts_volumes and spec.image_volumes else spec.images
