"""Text of objects and files in Markdown, as it is."""

from __future__ import annotations


def escaped(text: str) -> str:
    """One line without what Markdown, HTML or a forge would make of it: a table's bar, tags, mentions."""
    flat = " ".join(text.split())
    for special in "\\`*_~[]|":
        flat = flat.replace(special, f"\\{special}")
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
