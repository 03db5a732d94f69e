"""The policy pack: `pulumi preview --policy-pack policy`. docs/policy.md says what each policy is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import rules
from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError


def plain(value: Any) -> Any:
    """Return properties as plain data; values not known yet, on which the SDK raises, become `UNKNOWN`."""
    if isinstance(value, Mapping):
        return {key: _item(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_item(value, index) for index in range(len(value))]
    return value


def _item(container: Any, key: Any) -> Any:
    try:
        return plain(container[key])
    except UnknownValueError:
        return rules.UNKNOWN


def for_each_resource(
    resource_type: str, find_problems: Callable[[Mapping[str, Any], Mapping[str, Any]], Iterator[str]]
) -> Callable[[ResourceValidationArgs, ReportViolation], None]:
    """Validate every resource of a type by itself; `find_problems` gets its properties and the policy's settings."""

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        if args.resource_type == resource_type:
            for message in find_problems(plain(args.props), args.get_config()):
                report(message, None)

    return validate


def with_config_maps(
    find_problems: Callable[[Mapping[str, Any], list[Mapping[str, Any]]], Iterator[str]],
) -> Callable[[StackValidationArgs, ReportViolation], None]:
    """Validate every SecondaryScheduler together with all ConfigMaps of the stack."""

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        maps = [plain(resource.props) for resource in args.resources if resource.resource_type == rules.CONFIG_MAP]
        for resource in args.resources:
            if resource.resource_type == rules.SECONDARY_SCHEDULER:
                for message in find_problems(plain(resource.props), maps):
                    report(message, resource.urn)

    return validate


PolicyPack(
    name="secondary-scheduler",
    # `--policy-pack-config FILE` sets it for all, or for one policy by its name.
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[
        StackValidationPolicy(
            name="configuration-is-valid",
            description="The scheduler can load the configuration that a SecondaryScheduler names.",
            validate=with_config_maps(rules.configuration_problems),
        ),
        StackValidationPolicy(
            name="not-the-default-scheduler",
            description="No profile claims the pods of the cluster's own scheduler.",
            validate=with_config_maps(rules.default_name_problems),
        ),
        ResourceValidationPolicy(
            name="no-token-in-config-map",
            description="A scheduler's configuration contains no literal token.",
            validate=for_each_resource(rules.CONFIG_MAP, lambda props, _: rules.token_problems(props)),
        ),
        ResourceValidationPolicy(
            name="image-is-pinned",
            description="The scheduler's image is pinned by tag or digest.",
            config_schema=PolicyConfigSchema(properties={"requireDigest": {"type": "boolean", "default": False}}),
            validate=for_each_resource(
                rules.SECONDARY_SCHEDULER,
                lambda props, config: rules.image_problems(props, require_digest=bool(config.get("requireDigest"))),
            ),
        ),
        ResourceValidationPolicy(
            name="fields-are-known",
            description="A SecondaryScheduler has only fields and values that its operator knows.",
            validate=for_each_resource(rules.SECONDARY_SCHEDULER, lambda props, _: rules.field_problems(props)),
        ),
    ],
)
