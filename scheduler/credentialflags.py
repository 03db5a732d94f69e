"""The flags that say what a configuration may do with tokens, for each program that reads a metric source."""

from __future__ import annotations

import argparse

from scheduler.catalog import METRIC_CREDENTIALS_DIRECTORY, CredentialRules, address_problem


def add_credential_flags(group: argparse._ArgumentGroup) -> None:
    """Add them, for a program beside the scheduler, whose own have defaults from its environment."""
    group.add_argument("--metric-credentials-directory", metavar="DIR", default=METRIC_CREDENTIALS_DIRECTORY)
    group.add_argument("--metric-credentials-address", type=source_address, metavar="URL")
    group.add_argument("--metric-service-account-token", metavar="FILE")
    group.add_argument("--allow-insecure-metric-credentials", action="store_true")


def source_address(text: str) -> str:
    """The type of `--metric-credentials-address`."""
    if problem := address_problem(text):
        raise argparse.ArgumentTypeError(problem)
    return text


def credential_rules(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> CredentialRules:
    """Return what the flags say; a token without the address it is for ends the process with code 2."""
    if parsed.metric_service_account_token and not parsed.metric_credentials_address:
        parser.error("--metric-service-account-token needs --metric-credentials-address, the only place it is sent to")
    return CredentialRules(
        parsed.metric_credentials_directory,
        parsed.metric_credentials_address,
        parsed.metric_service_account_token,
        parsed.allow_insecure_metric_credentials,
    )
