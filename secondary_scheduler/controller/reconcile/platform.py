"""What the cluster around the scheduler asks for: a Kubernetes version that fits."""

from scheduler.config import flavour_of


def kubernetes_mismatch(image: str, minor: int | None) -> str:
    """A warning about an image that is built from another Kubernetes than the cluster's; empty where there is none.

    Kubernetes supports schedulers of the API server's minor version and of the one before.
    """
    flavour = flavour_of(image) if image else None
    if minor is None or flavour is None or flavour.family == "custom" or minor - flavour.kubernetes in (0, 1):
        return ""
    return (
        f"image {image} is made for Kubernetes 1.{flavour.kubernetes} and this cluster is 1.{minor}: supported are the "
        "cluster's minor version and the one before"
    )
