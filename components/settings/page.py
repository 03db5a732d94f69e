"""A page in the cluster: the setting, the rules about it, and what follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from scheduler.config import Configuration, Problem, SettingsModel, image_flavour

from .metric_settings import OUR_IMAGE
from .values import Image, Subdomain

KEY = "page"


class PageSettings(SettingsModel):
    """A page in the cluster, which shows each visitor what it may read.

    Attributes:
        image: this project's image, which has /bin/secondary-scheduler-page. Without it there is no page.
        hosts: names under which it is reached from outside, without ports; it refuses any other than these and its
            Service's.
        tls_secret: Secret of type kubernetes.io/tls in the scheduler's namespace, with its certificate; default: a
            self-signed one, about which browsers warn.
    """

    image: Image | None = None
    hosts: Annotated[tuple[Subdomain, ...], Field(max_length=16)] = ()
    tls_secret: Subdomain | None = None


@dataclass(frozen=True)
class PagePlan:
    """What is to be installed; `tls_secret` is "" for a certificate of its own."""

    image: str
    hosts: tuple[str, ...] = ()
    tls_secret: str = ""


def plan_page(settings: PageSettings, configuration: Configuration) -> tuple[PagePlan | None, list[Problem]]:
    """Return the page to install, and the problems; None where there is none, or one of them is an error.

    Args:
        settings: the setting.
        configuration: of the scheduler, with which the page decides.
    """
    if not settings.model_fields_set:
        return None, []
    if settings.image is None:
        return None, [Problem((KEY, "image"), f"missing; name {OUR_IMAGE}, or remove page")]
    if image_flavour(settings.image).family == "scheduler-plugins":
        return None, [Problem((KEY, "image"), f"must be {OUR_IMAGE}: no other has the page")]
    if not configuration.flavour.is_ours:
        message = "decides as this project's scheduler does, and schedulerImage is another one; remove page"
        return None, [Problem((KEY,), message)]
    return PagePlan(settings.image, settings.hosts, settings.tls_secret or ""), []
