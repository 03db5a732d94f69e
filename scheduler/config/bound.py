"""Which address the credentials of a configuration are for."""

from __future__ import annotations

from dataclasses import replace

from scheduler.catalog import CredentialRules, credential_of
from scheduler.config.load import Configuration


def bound_rules(configuration: Configuration, rules: CredentialRules) -> CredentialRules:
    """Return the rules with the address that the configuration sends tokens of files to.

    A token of a Secret may go to several addresses, the ServiceAccount's own to the first one only.
    """
    if not configuration.flavour.is_ours:
        return rules
    credentials = [
        credential_of(args, profile.options.load)
        for profile in configuration.profiles
        for plugin in profile.enabled
        if (args := profile.args(plugin)) is not None
    ]
    addresses = list(dict.fromkeys(c.address for c in credentials if c is not None and c.token_file is not None))
    if not addresses or (len(addresses) > 1 and rules.service_account_token is None):
        return rules
    return replace(rules, address=addresses[0])
