"""The LanguageRuntime service. gRPC's stubs are untyped: requests and responses stay inside this module."""

# ruff: noqa: D102 (the methods are those of the protocol, which documents them)

import platform
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from devcluster.pulumi_stand_ins.language_host.program import (
    BAIL_EXIT_CODE,
    PluginProcess,
    PluginRun,
    ProgramRun,
    Programs,
    import_path,
    installed,
    interpreter,
    required_packages,
)
from devcluster.pulumi_stand_ins.serving import engine_address, serve

VERSION = "3.220.0"  # of the engine and SDK whose protocol this speaks


def _options(info: Any) -> dict[str, object]:
    return dict(json_format.MessageToDict(info.options))


def _interpreter(info: Any) -> str:
    return interpreter(info.root_directory, _options(info))


def _import_path(info: Any) -> list[str]:
    return import_path(_interpreter(info))


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Answers what the engine asks of a language host; what it does not ask in preview, up, refresh, destroy, install
    about, nor of a plugin (code generation, `pulumi new`, packing) is answered UNIMPLEMENTED by the base class."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self.programs = Programs()

    def Handshake(self, request: Any, context: Any) -> Any:
        self._engine = request.engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    def About(self, request: Any, context: Any) -> Any:
        return language_pb2.AboutResponse(executable=_interpreter(request.info), version=platform.python_version())

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:
        packages = [
            plugin_pb2.PackageDependency(name=p.name, kind="resource", version=p.version, server=p.server)
            for p in required_packages(_import_path(request.info))
        ]
        return language_pb2.GetRequiredPackagesResponse(packages=packages)

    def GetRequiredPlugins(self, request: Any, context: Any) -> Any:
        plugins = [
            plugin_pb2.PluginDependency(name=p.name, kind="resource", version=p.version, server=p.server)
            for p in required_packages(_import_path(request.info))
        ]
        return language_pb2.GetRequiredPluginsResponse(plugins=plugins)

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        packages = installed(_import_path(request.info), transitive=request.transitiveDependencies)
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[language_pb2.DependencyInfo(name=name, version=version) for name, version in packages]
        )

    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:
        text = f"The stand-in language host installs nothing; programs run with {_interpreter(request.info)}\n"
        yield language_pb2.InstallDependenciesResponse(stdout=text.encode())

    def Run(self, request: Any, context: Any) -> Any:
        run = ProgramRun(
            project=request.project,
            stack=request.stack,
            organization=request.organization,
            root_directory=request.info.root_directory,
            working_directory=request.pwd or request.info.program_directory,
            entry_point=request.info.entry_point or ".",
            monitor=request.monitor_address,
            engine=self._engine,
            parallel=request.parallel,
            dry_run=request.dryRun,
            config=dict(request.config),
            secret_keys=list(request.configSecretKeys),
            arguments=list(request.args),
        )
        code = self.programs.run(run, _interpreter(request.info))
        if code == 0:
            return language_pb2.RunResponse()
        if code == BAIL_EXIT_CODE or self.programs.stopped:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"Program exited with non-zero exit code: {code}")

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        run = PluginRun(
            request.info.program_directory or request.program,
            request.pwd,
            list(request.args),
            dict(entry.partition("=")[::2] for entry in request.env),
        )
        plugin = PluginProcess(run, interpreter(run.folder, _options(request.info)))
        # The engine ends a plugin by cancelling this call; without the callback the process would outlive it.
        if not context.add_callback(plugin.stop):
            plugin.stop()
        for stream, chunk in plugin.output():
            if stream == "stdout":
                yield language_pb2.RunPluginResponse(stdout=chunk)
            else:
                yield language_pb2.RunPluginResponse(stderr=chunk)
        yield language_pb2.RunPluginResponse(exitcode=plugin.wait())

    def Cancel(self, request: Any, context: Any) -> Any:
        self.programs.stop()
        return empty_pb2.Empty()


def main(argv: Sequence[str]) -> None:
    """Serve the LanguageRuntime on a port of its own until interrupted."""
    host = LanguageHost(engine_address(argv))

    def register(server: grpc.Server) -> None:
        language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)

    # A running plugin occupies a worker as long as it lives.
    serve(register, workers=16, on_stop=host.programs.stop, grace=1.0)
    sys.stdout.flush()
