"""Source code, and the files that configure it: the text is the source. Passages are cut at its definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from denslice.corpus.formats.source_file import SourceFile
from denslice.records import Doc

SOURCE_ENDINGS = (
    *(".py", ".pyi", ".pyx", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".vue", ".svelte", ".css", ".scss", ".less"),
    *(".java", ".kt", ".kts", ".scala", ".groovy", ".gradle", ".clj", ".cljs", ".c", ".h", ".cc", ".cpp", ".cxx"),
    *(".hh", ".hpp", ".hxx", ".cu", ".cuh", ".m", ".mm", ".cs", ".fs", ".vb", ".go", ".rs", ".swift", ".dart", ".zig"),
    *(".rb", ".php", ".pl", ".pm", ".lua", ".tcl", ".r", ".jl", ".hs", ".ml", ".mli", ".ex", ".exs", ".erl", ".elm"),
    *(".lisp", ".el", ".scm", ".f", ".f90", ".pas", ".asm", ".s", ".v", ".sv", ".vhd", ".sol", ".nim", ".cr", ".d"),
    *(".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".cmd", ".awk", ".sql", ".graphql", ".proto", ".thrift"),
    *(".toml", ".yaml", ".yml", ".ini", ".cfg", ".conf", ".properties", ".tf", ".hcl", ".nix", ".cmake"),
    *(".mk", ".gn", ".bzl", ".dockerfile", ".diff", ".patch"),
)
_docstring = re.compile(
    r"(?:[ \t]*(?:#[^\n]*)?\n)*[rRuU]?(?P<quote>\"\"\"|'''|\"|')(?P<line>[^\n]*)\n?(?P<next>[^\n]*)"
)


def read_source_code(file: SourceFile) -> Iterator[Doc]:
    """Yield the file as one document. That of a Python module is titled by the first line of its docstring."""
    text = file.text()
    yield Doc("", text, _docstring_title(text) if file.ending in (".py", ".pyi") else "")


def _docstring_title(text: str) -> str:
    """Return the first line of a module's docstring, or nothing; the module is not parsed."""
    found = _docstring.match(text)
    if not found:
        return ""
    line, quote = found["line"], found["quote"]
    if len(quote) == 3 and not line.strip():
        line = found["next"]
    return line.partition(quote)[0].strip().removesuffix(".")
