"""`denslice info` shows the settings and sizes of an index."""

from __future__ import annotations

from denslice.cli.arguments import AsJson, IndexFolder, open_folder


def info(folder: IndexFolder, as_json: AsJson = False) -> None:
    """Show the encoder, slicing, number of documents and size of an index."""
    from denslice.cli.output import write_json, write_line

    told = open_folder(folder).info().to_dict()
    if as_json:
        return write_json(told)
    for name, value in told.items():
        write_line(f"{name.replace('_', ' '):<16} {_shown(name, value)}")


def _shown(name: str, value: object) -> str:
    from denslice.cli.output import setting, size

    if name == "slices" and value is None:
        return "every token"
    return size(value) if name == "bytes" and isinstance(value, int) else setting(value)
