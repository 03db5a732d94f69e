"""What the race sees of its pods: each is bound once, whatever is changed of it later."""

from benchmarks.harness import podwatch
from benchmarks.harness.podwatch import PodWatch


def shown(observer: PodWatch, kind: str, name: str, node: str = "", at: float = 0.0) -> None:
    body = f'{{"type":"{kind}","object":{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"{node}"}}}}}}'
    observer._pod(podwatch._decoder.decode(body), at)


def test_a_change_of_a_pod_that_was_bound_before_a_reset_is_no_binding() -> None:
    observer = PodWatch(None)  # type: ignore[arg-type]  # without a cluster
    names: list[str] = []
    observer.on_bound = names.append
    shown(observer, "ADDED", "a")
    shown(observer, "MODIFIED", "a", "n1", 2.0)
    assert observer.bound == {"a": 2.0}
    observer.reset()
    shown(observer, "MODIFIED", "a", "n1", 3.0)
    assert not observer.bound
    assert names == ["a"]


def test_another_pod_of_the_same_name_is_bound_again() -> None:
    observer = PodWatch(None)  # type: ignore[arg-type]  # without a cluster
    for at, kind in enumerate(("ADDED", "DELETED", "ADDED")):
        shown(observer, kind, "a", "n1", float(at))
        observer.reset()
    shown(observer, "DELETED", "a")
    shown(observer, "ADDED", "a", "n2", 9.0)
    assert observer.bound == {"a": 9.0}
    assert observer.node == {"a": "n2"}
