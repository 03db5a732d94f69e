"""System calls that containers may make (security-profiles-operator.x-k8s.io/v1beta1)."""

from __future__ import annotations

from msgspec import Struct

from scheduler.kube.model.meta import Object


class Syscall(Struct, frozen=True, gc=False, rename="camel"):
    """v1beta1.Syscall: calls, and what happens to whoever makes one."""

    names: tuple[str, ...] = ()
    action: str = ""


class SeccompProfileSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1beta1.SeccompProfileSpec."""

    syscalls: tuple[Syscall, ...] = ()


class SeccompProfileObject(Object, frozen=True, gc=False, rename="camel"):
    """security-profiles-operator.x-k8s.io/v1beta1 SeccompProfile; the name is taken by the field of v1.Pod."""

    spec: SeccompProfileSpec = SeccompProfileSpec()
