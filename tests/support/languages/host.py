"""A stand-in for `pulumi-language-go` and `pulumi-language-nodejs`, which are on no registry that tests may use.

It starts a program as they do: the SDKs of both languages read what to do from flags and environment variables. It
installs nothing, and its Go programs are built before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from devcluster.pulumi_stand_ins.serving import engine_address, serve

GO_BINARY = "program"
"""In the program's folder."""
_REPORTED = 32
"""Exit code of a Node.js program that has told the engine what is wrong."""


class Host(language_pb2_grpc.LanguageRuntimeServicer):
    """What the engine asks of a language plugin in preview, up and destroy."""

    def __init__(self, language: str, engine: str) -> None:
        self._language, self._engine = language, engine
        self._running: list[subprocess.Popen[bytes]] = []

    def Handshake(self, request: Any, context: Any) -> Any:
        self._engine = request.engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="3.220.0")

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPackagesResponse()

    def GetRequiredPlugins(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPluginsResponse()

    def InstallDependencies(self, request: Any, context: Any) -> Any:
        yield language_pb2.InstallDependenciesResponse()

    def Run(self, request: Any, context: Any) -> Any:
        folder = request.info.program_directory or request.pwd
        variables = {
            **os.environ,
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        command = [f"{folder}/{GO_BINARY}"] if self._language == "go" else self._node(request, folder)
        variables |= self._go(request) if self._language == "go" else {"PULUMI_NODEJS_TYPESCRIPT": "true"}
        process = subprocess.Popen(command, cwd=folder, env=variables, stdin=subprocess.DEVNULL)
        self._running.append(process)
        code = process.wait()
        if code == 0:
            return language_pb2.RunResponse()
        if code == _REPORTED:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"program exited with non-zero exit code: {code}")

    def Cancel(self, request: Any, context: Any) -> Any:
        self.stop()
        return empty_pb2.Empty()

    def stop(self) -> None:
        for process in self._running:
            process.terminate()

    def _go(self, request: Any) -> dict[str, str]:
        return {
            "PULUMI_ORGANIZATION": request.organization,
            "PULUMI_PROJECT": request.project,
            "PULUMI_ROOT_DIRECTORY": request.info.root_directory,
            "PULUMI_STACK": request.stack,
            "PULUMI_PARALLEL": str(request.parallel),
            "PULUMI_DRY_RUN": str(request.dryRun).lower(),
            "PULUMI_MONITOR": request.monitor_address,
            "PULUMI_ENGINE": self._engine,
        }

    def _node(self, request: Any, folder: str) -> list[str]:
        flags = {
            "organization": request.organization,
            "project": request.project,
            "root-directory": request.info.root_directory,
            "stack": request.stack,
            "parallel": str(request.parallel),
            "monitor": request.monitor_address,
            "engine": self._engine,
            "pwd": folder,
        }
        options = [f"--{name}={value}" for name, value in flags.items()]
        dry_run = ["--dry-run"] if request.dryRun else []
        return ["node", f"{folder}/node_modules/@pulumi/pulumi/cmd/run", *options, *dry_run, "."]


def main() -> None:
    language, *arguments = sys.argv[1:]
    host = Host(language, engine_address(arguments))

    def register(server: grpc.Server) -> None:
        language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)

    serve(register, workers=8, on_stop=host.stop, grace=1.0)


if __name__ == "__main__":
    main()
