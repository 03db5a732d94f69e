"""ServiceAccount tokens for pods, bound to the pod and renewed at 80 % of their life, as by kubelet."""

from dataclasses import dataclass
from datetime import datetime

from devcluster.node_agent.api import Api
from devcluster.node_agent.objects import Clock, Obj
from devcluster.node_agent.volumes.sources import TokenRequest

RENEW_AT = 0.8
RENEW_AFTER_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class _Token:
    value: str
    renew_at: float


class TokenManager:
    """The tokens of one pod."""

    def __init__(self, api: Api, pod: Obj, clock: Clock) -> None:
        self._api = api
        self._pod = pod
        self._clock = clock
        self._tokens: dict[TokenRequest, _Token] = {}

    async def tokens(self, wanted: set[TokenRequest]) -> dict[TokenRequest, str]:
        """A valid token for each request; KubeError if the API server refuses a first one."""
        return {request: await self._token(request) for request in wanted}

    async def _token(self, request: TokenRequest) -> str:
        known = self._tokens.get(request)
        if known is not None and self._clock() < known.renew_at:
            return known.value
        metadata, account = self._pod["metadata"], self._pod["spec"].get("serviceAccountName") or "default"
        answer = await self._api.create(
            f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "audiences": [request.audience] if request.audience else [],
                    "expirationSeconds": request.expiration_seconds,
                    "boundObjectRef": {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                    },
                },
            },
        )
        expires = datetime.fromisoformat(answer["status"]["expirationTimestamp"]).timestamp()
        now = self._clock()
        life = min((expires - now) * RENEW_AT, RENEW_AFTER_SECONDS)
        token = _Token(str(answer["status"]["token"]), now + life)
        self._tokens[request] = token
        return token.value
