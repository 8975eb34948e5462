"""`denslice info` shows the settings and sizes of an index."""

from __future__ import annotations

from denslice.cli.arguments import AsJson, IndexFolder, open_folder


def info(folder: IndexFolder, as_json: AsJson = False) -> None:
    """Show the encoder, slicing, number of documents and size of an index."""
    from denslice.cli.output import setting, size, write_json, write_line

    told = open_folder(folder).info().to_dict()
    if as_json:
        return write_json(told)
    for name, value in told.items():
        shown = size(value) if name == "bytes" else setting(value)
        write_line(f"{name.replace('_', ' '):<16} {shown}")
