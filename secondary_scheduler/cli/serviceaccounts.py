"""Asking a scheduler as a ServiceAccount, for those whom the API server knows by a certificate: a scheduler in a pod
does not know who signs these, but has tokens reviewed (docs/adr/0025)."""

from __future__ import annotations

from scheduler.kube.client import ClientConfig, Forbidden, KubeError, NotFound, SyncConnection, api_path
from secondary_scheduler.cli.errors import CommandError, printable
from secondary_scheduler.clusterstatus.listing import part, read_object

_VALID_SECONDS = 600
"""The shortest that the API server issues."""
_TIMEOUT = 15.0


def asking_as(config: ClientConfig, account: str | None) -> ClientConfig | None:
    """Return the connection with a token of a ServiceAccount, for what goes to the scheduler itself; None without one.

    Args:
        config: of the user, who needs `create` on `serviceaccounts/token`.
        account: `NAME`, of the context's namespace, or `NAMESPACE/NAME`.

    Raises:
        CommandError: there is no token to be had.
    """
    if account is None:
        return None
    place, _, name = account.rpartition("/")
    namespace = place or config.namespace
    path = api_path("v1", "serviceaccounts", namespace=namespace, name=name, subresource="token")
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _VALID_SECONDS},
    }
    connection = SyncConnection(config, timeout=_TIMEOUT, user_agent="secondary-scheduler/token")
    try:
        answer = read_object(connection.request("POST", path, body=request), path)
    except NotFound as error:
        raise CommandError(f"--as-service-account: there is no ServiceAccount {namespace}/{name}") from error
    except Forbidden as error:
        needs = f"this user needs create on serviceaccounts/token for {name} in namespace {namespace}"
        raise CommandError(f"--as-service-account {account}: {needs}") from error
    except KubeError as error:
        raise CommandError(printable(f"--as-service-account {account}: {error}")) from error
    finally:
        connection.close()
    token = str(part(answer, "status").get("token") or "")
    return config.with_token(token, f"ServiceAccount {namespace}/{name}")
