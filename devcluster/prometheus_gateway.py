"""TLS and a bearer token in front of Prometheus, as the monitoring stacks of real clusters have them.

Only `/api/v1/*` is passed on, and only with the token; `/-/healthy` answers anybody.
"""

from __future__ import annotations

import argparse
import hmac
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
from aiohttp import web

from devcluster.ports import LOOPBACK

_UPSTREAM_SECONDS = 30.0
_PASSED_ON = ("Accept", "Accept-Encoding", "Content-Type")
_BODY_BYTES = 1 << 20


def application(upstream: str, token: str) -> web.Application:
    """The gateway to the Prometheus at `upstream`."""
    expected = f"Bearer {token}".encode()
    session_key = web.AppKey("session", aiohttp.ClientSession)

    async def client(app: web.Application) -> AsyncIterator[None]:
        timeout = aiohttp.ClientTimeout(total=_UPSTREAM_SECONDS)
        # What the caller did not ask for, such as a compressed answer, must not be asked for on the way.
        async with aiohttp.ClientSession(
            timeout=timeout, auto_decompress=False, skip_auto_headers=["Accept-Encoding", "User-Agent"]
        ) as session:
            app[session_key] = session
            yield

    async def pass_on(request: web.Request) -> web.StreamResponse:
        authorization = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(authorization, expected):
            return web.Response(status=401, text="Unauthorized\n", headers={"WWW-Authenticate": "Bearer"})
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        try:
            async with request.app[session_key].request(
                request.method,
                upstream + request.path_qs,
                data=await request.read(),
                headers=headers,
                allow_redirects=False,
            ) as answer:
                body = await answer.read()
                content = {"Content-Type": answer.headers.get("Content-Type", "application/octet-stream")}
                if encoding := answer.headers.get("Content-Encoding"):
                    content["Content-Encoding"] = encoding
                return web.Response(status=answer.status, body=body, headers=content)
        except (aiohttp.ClientError, TimeoutError) as error:
            return web.Response(status=502, text=f"Prometheus does not answer: {type(error).__name__}\n")

    async def healthy(_: web.Request) -> web.Response:
        return web.Response(text="Prometheus gateway is Healthy.\n")

    app = web.Application(client_max_size=_BODY_BYTES)
    app.cleanup_ctx.append(client)
    app.router.add_get("/-/healthy", healthy)
    for method in ("GET", "POST"):
        app.router.add_route(method, "/api/v1/{rest:.*}", pass_on)
    return app


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="prometheus-gateway")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True, help="address of Prometheus, without a path")
    parser.add_argument("--certificate", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--token-file", type=Path, required=True)
    arguments = parser.parse_args()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(arguments.certificate, arguments.key)
    app = application(arguments.upstream, arguments.token_file.read_text().strip())
    web.run_app(app, host=LOOPBACK, port=arguments.port, ssl_context=context, print=None, access_log=None)


if __name__ == "__main__":
    main()
