"""A webhook of admission whose answers a test decides."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from devcluster import pki
from tests.faults.stage import Stage, eventually

Json = dict[str, Any]
_REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
Answer = Callable[[Json], Json]
"""From an AdmissionReview's request, the fields of its response."""


class Webhook:
    """A server that the API server asks before it creates a Binding in a namespace, as long as the block."""

    def __init__(
        self,
        stage: Stage,
        answer: Answer,
        *,
        mutating: bool = False,
        resources: Sequence[str] = ("pods/binding", "bindings"),
        timeout_seconds: int = 1,
    ) -> None:
        self._stage, self._answer = stage, answer
        self._kind = "mutatingwebhookconfigurations" if mutating else "validatingwebhookconfigurations"
        self._authority = pki.CertificateAuthority("webhook")
        self._runner: web.ServerRunner | None = None
        self._resources, self._timeout_seconds = list(resources), timeout_seconds
        self.asked: list[str] = []
        self.seconds = 0.0
        """How long it takes to answer."""

    async def __aenter__(self) -> Webhook:
        pair = self._authority.server("webhook", [], ["127.0.0.1"])
        files = self._stage.directory / "webhook.crt", self._stage.directory / "webhook.key"
        for file, content in zip(files, (pair.certificate, pair.key), strict=True):
            await asyncio.to_thread(file.write_bytes, content)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*files)
        self._runner = web.ServerRunner(web.Server(self._handle), access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls).start()
        hook = {
            "name": "bindings.example.com",
            "clientConfig": {
                "url": f"https://127.0.0.1:{self._runner.addresses[0][1]}/",
                "caBundle": base64.b64encode(self._authority.pair.certificate).decode(),
            },
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": self._resources,
                 "scope": "Namespaced"},
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._stage.namespace}},
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "timeoutSeconds": self._timeout_seconds,
        }  # fmt: skip
        body = {"metadata": {"name": self._stage.namespace}, "webhooks": [hook]}
        await self._stage.api.call("POST", f"{_REGISTRATIONS}/{self._kind}", body)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stage.api.call("DELETE", f"{_REGISTRATIONS}/{self._kind}/{self._stage.namespace}")
        assert self._runner is not None
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        review = json.loads(await request.read())
        request_body = review["request"]
        self.asked.append(request_body["name"])
        await asyncio.sleep(self.seconds)
        response = {"uid": request_body["uid"], "allowed": True, **self._answer(request_body)}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})

    async def in_force(self) -> None:
        """Wait until the API server asks it, by Bindings of a pod that does not exist."""

        async def is_asked() -> bool:
            path = f"/api/v1/namespaces/{self._stage.namespace}/pods/nobody/binding"
            with contextlib.suppress(Exception):
                await self._stage.api.call("POST", path, {"metadata": {"name": "nobody"}, "target": {"name": "n"}})
            return bool(self.asked)

        await eventually(is_asked)
        self.asked.clear()
