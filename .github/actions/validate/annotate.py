"""Turns the result of `secondary-scheduler validate -o json` into GitHub's annotations. Needs Python alone."""

import json
import sys
from pathlib import Path


def _escaped(text: str, *, value: bool = False) -> str:
    pairs = [("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), *([(":", "%3A"), (",", "%2C")] if value else [])]
    for character, code in pairs:
        text = text.replace(character, code)
    return text


def main() -> None:
    """Print an annotation for each problem of the file that is named."""
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    for file in json.loads(text)["files"] if text.strip() else ():
        for problem in file["problems"]:
            place = {"file": file["file"], "line": problem["line"], "col": problem["column"]}
            shown = ",".join(f"{key}={_escaped(str(part), value=True)}" for key, part in place.items() if part)
            message = "; ".join(part for part in (problem["message"], problem["hint"]) if part)
            message = f"{problem['path']}: {message}" if problem["path"] else message
            print(f"::{problem['severity']} {shown}::{_escaped(message)}")  # noqa: T201


if __name__ == "__main__":
    main()
