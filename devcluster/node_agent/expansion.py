"""``$(VAR)`` expansion as in command, args and env of a pod. Pure."""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by its value; an unknown name stays as written; ``$$`` gives one ``$``.

    Source: k8s.io/kubernetes/third_party/forked/golang/expansion.
    """

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "$"
        return variables.get(name, match.group(0))

    return _REFERENCE.sub(replace, text)
