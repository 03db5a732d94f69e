"""What a configuration says of extenders: its checks, and what follows from it for NodeResourcesFit."""

import base64
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from scheduler.catalog import ArgsModel, Loc, NodeResourcesFitArgs, is_qualified_name
from scheduler.config.document import ConfigurationDocument
from scheduler.config.flavours import Flavour
from scheduler.config.model import Extender, ExtenderTLSConfig, KubeSchedulerConfiguration
from scheduler.config.problems import Problem

_FIT = "NodeResourcesFit"


def check_extenders(
    document: ConfigurationDocument, model: KubeSchedulerConfiguration, flavour: Flavour
) -> Iterator[Problem]:
    """Yield the problems of the extenders, worded as kube-scheduler words them (validateExtenders)."""
    binders = [index for index, extender in enumerate(model.extenders) if extender.bind_verb]
    seen: set[str] = set()
    for index, extender in enumerate(model.extenders):
        at: Loc = ("extenders", index)
        if extender.prioritize_verb and extender.weight <= 0:
            message = f"Invalid value: {extender.weight}: must have a positive weight applied to it"
            yield document.problem((*at, "weight"), message)
        for number, resource in enumerate(extender.managed_resources):
            name_loc: Loc = (*at, "managedResources", number, "name")
            if not _is_extended_resource(resource.name):
                message = f'Invalid value: "{resource.name}": is an invalid extended resource name'
                yield document.problem(name_loc, message)
            if resource.name in seen:
                message = f'Invalid value: "{resource.name}": duplicate extender managed resource name'
                yield document.problem(name_loc, message)
            seen.add(resource.name)
        if flavour.is_ours:
            yield from _check_connection(document, extender, at)
    if len(binders) > 1:
        message = (
            f'Invalid value: "found {len(binders)} extenders implementing bind": only one extender can implement bind'
        )
        yield document.problem(("extenders", binders[1]), message)


def _is_extended_resource(name: str) -> bool:
    """Tell whether this is the name of an extended resource (IsExtendedResourceName of kube-scheduler)."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_qualified_name(name) and is_qualified_name(f"requests.{name}")


def _check_connection(document: ConfigurationDocument, extender: Extender, at: Loc) -> Iterator[Problem]:
    """Yield what keeps our image from asking an extender; upstream finds out at its start or at the first call."""
    at_url: Loc = (*at, "urlPrefix")
    try:
        parts = urlsplit(extender.url_prefix)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        message = f'Invalid value: "{extender.url_prefix}": is not a URL of the form http://host:port/path'
        yield document.problem(at_url, message)
    elif parts.username or parts.password:
        # The value is not shown: it holds a password.
        message = "a user name or password in the URL is not supported: it would be shown in events and logs"
        yield document.problem(at_url, message, hint="authenticate by a client certificate (tlsConfig)")
    if extender.http_timeout < 0:
        message = "Invalid value: must not be negative"
        yield document.problem((*at, "httpTimeout"), message)
    tls = extender.tls_config or ExtenderTLSConfig()
    has_authority = bool(tls.ca_file or tls.ca_data)
    if tls.insecure and has_authority:
        message = "specifying a root certificates file with the insecure flag is not allowed"
        yield document.problem((*at, "tlsConfig"), message)
    if extender.enable_https and not has_authority and extender.url_prefix.startswith("https:"):
        message = "without caFile or caData, enableHTTPS switches verification off: the extender may be anybody"
        hint = "give caFile, or leave enableHTTPS out to verify with the system's certificate authorities"
        yield document.problem((*at, "enableHTTPS"), message, hint=hint, severity="warning")
    for field, text in (("caData", tls.ca_data), ("certData", tls.cert_data), ("keyData", tls.key_data)):
        if text and not _is_base64(text):
            # Nor is this value.
            yield document.problem((*at, "tlsConfig", field), "is not valid base64")
    if tls.key_data:
        message = "a private key in a ConfigMap can be read by everyone who can read ConfigMaps"
        yield document.problem((*at, "tlsConfig", "keyData"), message, hint="give keyFile", severity="warning")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def ignored_resources(model: KubeSchedulerConfiguration) -> tuple[str, ...]:
    """Return the resources that extenders manage and that the scheduler is not to count, in the file's order."""
    return tuple(
        resource.name
        for extender in model.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )


def without_ignored(args: Mapping[str, ArgsModel], ignored: tuple[str, ...]) -> Mapping[str, ArgsModel]:
    """Return a profile's args with these as the `ignoredResources` of NodeResourcesFit, in place of its own
    (buildExtenders)."""
    fit = args.get(_FIT)
    if not ignored or not isinstance(fit, NodeResourcesFitArgs):
        return args
    return {**args, _FIT: fit.model_copy(update={"ignored_resources": list(ignored)})}


def check_ignored(
    document: ConfigurationDocument, args: Mapping[str, ArgsModel], ignored: tuple[str, ...], loc: Loc
) -> Iterator[Problem]:
    """Yield a problem where a profile has nothing to ignore resources with."""
    if ignored and not isinstance(args.get(_FIT), NodeResourcesFitArgs):
        message = "can't find NodeResourcesFitArgs in plugin config"
        hint = "an extender has managedResources with ignoredByScheduler: enable NodeResourcesFit in every profile"
        yield document.problem(loc, message, hint=hint)
