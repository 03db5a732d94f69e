"""Stand-ins for `pulumi-language-python` and `pulumi-resource-kubernetes`, for machines without the official plugins.

They speak the official plugins' gRPC protocols to the real engine, and are put on PATH only by our own commands and
tests: no Pulumi.yaml names them, so where the official plugins are installed nothing changes. Their limits are in
docs/pulumi-stand-ins.md.
"""

from pathlib import Path

LANGUAGE_HOST = "pulumi-language-python"
KUBERNETES_PROVIDER = "pulumi-resource-kubernetes"
BIN = Path(__file__).resolve().parent / "bin"
"""The directory with the executables of all stand-ins."""
