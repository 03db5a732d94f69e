"""What is taken out of text: secrets that are known, and what looks like one.

Everything in an archive goes through it, names of files too. Whatever a tenant writes, the time that a text takes grows
with its length only.
"""

from __future__ import annotations

import base64
import functools
import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from scheduler import __version__
from scheduler.config import names_secret
from scheduler.options import parse_options
from secondary_scheduler.cli.redaction import MASK, Redactor

MAX_SECRETS: Final = 300
"""Known secrets that are looked for. With more nothing is written, as the search would take minutes."""
_SHORT: Final = 8
"""Characters. A value of a variable that is shorter, and not said to be secret, would mask half of every log."""
_STEM: Final = 12
"""Bytes of a secret from which on it is also looked for inside of longer base64."""
_OPERATOR_FLAG: Final = re.compile(
    "-v|--(?:version|namespace|watch-namespaces|status-of|secrets|kubeconfig|bind-address|port|metrics-port|"
    "max-connections|max-connections-per-address|config)"
)
"""Of our operator, and of upstream's."""
_COMMAND_LINES: Final = ("command", "args", "extraArgs")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_COLOUR: Final = re.compile("\x1b\\[[0-9;]{0,16}[A-Za-z]")
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_WORDS: Final = (
    "tokens?|passw(?:or)?d|passphrase|pwd|secrets?|api[_-]?key|access[_-]?key|private[_-]?key|key[_-]?data|"
    "credentials?|cookie"
)
_NAMED: Final = re.compile(
    rf"(?i)((?:{_WORDS})\\{{0,3}}[\"']?[ \t]{{0,8}}[:=][ \t]{{0,8}}\\{{0,3}})"
    r"(\"[^\"\n\\]{1,256}|'[^'\n\\]{1,256}|[^\s\"',;&}\])\\]+)"
)
"""`password=…`, `"token": "…"`, `\\"token\\": \\"…\\"`; the second group is the value."""
_AUTHORIZATION: Final = re.compile(
    r"(?i)(authorization\\{0,3}[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\{0,3}[\"']?)([^\"'\n\\]+)"
)
_BEARER: Final = re.compile(r"(?i)(bearer[ \t:=]{1,8})([A-Za-z0-9._~+/=-]{8,})")
_USERINFO: Final = re.compile(r"(://)([^\s/?#\"'<>\\]{1,1024})@")
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)
_KEY_END: Final = re.compile(r"\A(?:[A-Za-z0-9+/=\s]|\\n){0,8192}-----END [A-Z ]{0,40}PRIVATE KEY-----")
"""Of a key whose beginning was cut off."""
_AWS: Final = re.compile(r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])")
_OPENSHIFT: Final = re.compile(r"sha256~[A-Za-z0-9_-]{20,}")
_DOTTED: Final = re.compile(r"[A-Za-z0-9_.-]{20,}")


_REMEMBERED: Final = 4096
_MAX_REMEMBERED: Final = 128


class KnownSecrets:
    """Collects secret values from objects as they were read, before anything of them is left out.

    No Secret is read for them: these are values of environment variables and of unknown flags, whatever stands under a
    key that names a secret, and the user part of URLs.
    """

    def __init__(self) -> None:
        self.values: set[str] = set()
        self._public: set[str] = set()

    def add(self, value: str) -> None:
        """Add a value that is secret for certain."""
        if value.strip():
            self.values.add(value)

    def spare(self, values: Iterable[str]) -> None:
        """Names that the archive is about: a variable that repeats one is no secret."""
        self._public.update(values)

    def add_text(self, text: str) -> None:
        """Add what in a text follows a word such as `token=`, and user names and passwords in URLs."""
        for match in _NAMED.finditer(text):
            self._add_likely(match[2].lstrip("\"'"), _SHORT)
        for match in _USERINFO.finditer(text):
            self._add_likely(match[2], _SHORT)
            self._add_likely(match[2].partition(":")[2], 4)

    def add_object(self, raw: Any) -> None:
        """Add what an object of the API, or a configuration, holds."""
        waiting: list[tuple[str, Any]] = [("", raw)]
        while waiting:
            key, value = waiting.pop()
            if isinstance(value, Mapping):
                waiting += value.items()
            elif isinstance(value, list):
                if key == "env":
                    self._add_variables(value)
                elif key in _COMMAND_LINES:
                    self._add_words(value)
                waiting += ((key, item) for item in value)
            elif isinstance(value, str):
                self._add_value(key, value)

    def _add_value(self, key: str, value: str) -> None:
        if key == _LAST_APPLIED:
            applied = _json(value)
            if applied is not None:
                self.add_object(applied)
        elif names_secret(key) and not key.endswith("Name"):
            self._add_likely(value, 4)
        self.add_text(value)

    def _add_words(self, words: list[Any]) -> None:
        """Add the values of unknown flags: after a `=`, or in the word that follows."""
        texts = [word for word in words if isinstance(word, str)]
        for word, following in itertools.zip_longest(texts, texts[1:], fillvalue=""):
            if word.startswith("-") and not is_known_flag(word):
                _, sign, value = word.partition("=")
                self._add_likely(value if sign or following.startswith("-") else following, _SHORT)

    def _add_variables(self, variables: list[Any]) -> None:
        for variable in variables:
            if isinstance(variable, Mapping) and isinstance(variable.get("value"), str):
                named = names_secret(str(variable.get("name")))
                self._add_likely(variable["value"], 4 if named else _SHORT)

    def _add_likely(self, value: str, shortest: int) -> None:
        if len(value.strip()) >= shortest and value != MASK:
            self.values.add(value)

    def secrets(self) -> list[str]:
        """What is to be taken out, without what is no secret."""
        return sorted(self.values - self._public)


class Redaction(Redactor):
    """Takes known secrets, and what looks like one, out of text and data."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        super().__init__([*secrets, *(stem for secret in secrets for stem in _stems(secret))])
        # Most texts of objects are keys and names that come again and again.
        self._redacted_again = functools.lru_cache(_REMEMBERED)(self._redacted)

    def text(self, text: str) -> str:
        """A text without secrets and without what controls a terminal."""
        return self._redacted_again(text) if len(text) <= _MAX_REMEMBERED else self._redacted(text)

    def _redacted(self, text: str) -> str:
        plain = _COLOUR.sub("", text.replace("\r\n", "\n"))
        plain = super().text(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", plain))
        plain = _PRIVATE_KEY.sub(MASK, _KEY_END.sub(MASK, plain))
        plain = _DOTTED.sub(lambda match: _cut_tokens(match[0]), plain)
        plain = _AUTHORIZATION.sub(_mask_named, plain)
        plain = _BEARER.sub(rf"\1{MASK}", plain)
        plain = _USERINFO.sub(rf"\1{MASK}@", plain)
        plain = _AWS.sub(MASK, _OPENSHIFT.sub(MASK, plain))
        return _NAMED.sub(_mask_named, plain)


def is_known_flag(word: str) -> bool:
    """Whether a word of a command line is a flag of a scheduler, ours or the Go one, or of an operator; Kubernetes
    takes underscores for dashes."""
    flag = word.partition("=")[0].replace("_", "-")
    return _OPERATOR_FLAG.fullmatch(flag) is not None or flag.removeprefix("--") in _scheduler_flags()


@functools.lru_cache
def _scheduler_flags() -> frozenset[str]:
    return frozenset(parse_options((), __version__).shown)


def _mask_named(match: re.Match[str]) -> str:
    if match[2].startswith(MASK[:-1]):
        return match[0]
    quote = match[2][0] if match[2][0] in "\"'" else ""
    return f"{match[1]}{quote}{MASK}"


def _cut_tokens(word: str) -> str:
    """A run of letters, digits and dots without what begins as a JWT and has a second part."""
    begin = word.find("eyJ")
    return f"{word[:begin]}{MASK}" if begin >= 0 and "." in word[begin:] and len(word) - begin >= 20 else word


def _stems(secret: str) -> Iterator[str]:
    """The base64 of a secret within that of a longer text, where it begins at each of the three offsets."""
    raw = secret.strip().encode()
    if len(raw) < _STEM:
        return
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw).decode()
        stem = encoded[-(-offset * 8 // 6) : (offset + len(raw)) * 8 // 6]
        yield stem
        yield stem.translate(str.maketrans("+/", "-_"))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
