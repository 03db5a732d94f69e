"""Types of setting values."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from scheduler.catalog import address_problem, is_subdomain
from scheduler.config import parse_version
from scheduler.kube.primitives import QuantityError, quantity_milli_value

_OBJECT = re.compile(r"[A-Za-z]+/[A-Za-z0-9][-A-Za-z0-9.:_]*")
_IMAGE = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::[0-9]+)?/)?"  # registry
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"  # repository
    r"(?::\w[\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
SECRET_ARGUMENT = re.compile(r"token|password|secret|bearer|credential", re.IGNORECASE)
"""Names of args whose values must not be in a ConfigMap."""
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _image(value: str) -> str:
    if not _IMAGE.fullmatch(value):
        raise ValueError("is not an image; write registry/repository:tag or registry/repository@sha256:digest")
    return value


def _repository(value: str) -> str:
    if not _IMAGE.fullmatch(value) or "@" in value or ":" in value.rpartition("/")[2]:
        raise ValueError("is not a repository; write registry/repository, without a tag or digest")
    return value


def _object_name(value: str) -> str:
    if not _OBJECT.fullmatch(value):
        raise ValueError("is not an object; write Kind/name, such as Deployment/secondary-scheduler-operator")
    return value


def _quantity(value: str) -> str:
    try:
        amount = quantity_milli_value(value)
    except QuantityError:
        raise ValueError("is not a quantity; write one such as 100m, 2 or 512Mi, in quotes") from None
    if amount <= 0:
        raise ValueError("must be more than 0")
    return value


def _subdomain(value: str) -> str:
    if not is_subdomain(value):
        raise ValueError("must consist of lower case letters, digits, '-' and '.', at most 253 of them")
    return value


def _environment_name(value: str) -> str:
    if not _ENVIRONMENT_NAME.fullmatch(value):
        raise ValueError("must be the name of an environment variable")
    return value


def absent_if_empty(value: object) -> object:
    """Return None for `{}`: Pulumi.yaml can make a mapping optional only by an empty default."""
    return None if value == {} else value


def source_url(value: str) -> str:
    """Return the address of a metric source if it is a plain URL.

    Raises:
        ValueError: it is not a URL, or has a password in it. The message does not quote it, as it may be secret.
    """
    if "@" in value:
        raise ValueError("must not hold a user or password; put the token under credentials")
    if address_problem(value) is not None:
        raise ValueError("is not a URL; write http://HOST:PORT or https://HOST:PORT")
    return value


def _version(value: str) -> str:
    if parse_version(value) is None:
        raise ValueError('is not a version; write it in quotes, such as "1.34" or "1.34.7"')
    return value


def _server(value: str) -> str:
    url = urlsplit(value)
    if url.scheme != "https" or not url.hostname or url.username is not None or url.path.strip("/") or url.query:
        raise ValueError("is not the address of an API server; write https://HOST:PORT as in the kubeconfig")
    return value


def _file_name(value: str) -> str:
    if value.startswith(("/", "~")) or "\\" in value:
        raise ValueError("must be a path relative to the folder of the stack file, so that it works on every machine")
    return value


Version = Annotated[str, AfterValidator(_version)]
ServerAddress = Annotated[str, AfterValidator(_server)]
FileName = Annotated[str, AfterValidator(_file_name)]
Image = Annotated[str, AfterValidator(_image)]
ResourceQuantity = Annotated[str, AfterValidator(_quantity)]
Repository = Annotated[str, AfterValidator(_repository)]
"""An image without tag and digest."""
ObjectName = Annotated[str, AfterValidator(_object_name)]
"""An object of the stack, as Kind/name."""
Subdomain = Annotated[str, AfterValidator(_subdomain)]
EnvironmentName = Annotated[str, AfterValidator(_environment_name)]
SecretDataKey = Annotated[str, Field(pattern=f"^{_SECRET_KEY.pattern}$")]
