"""`denslice export-docs` prints every document of an index as a line of JSON."""

from __future__ import annotations

from denslice.cli.arguments import IndexFolder, open_folder


def export_docs(folder: IndexFolder) -> None:
    """Print every document as a line of JSON that `index` can read: id, title, text and meta, but no vectors."""
    from denslice.cli.output import write_json

    for doc in open_folder(folder).docs():
        write_json(doc.to_dict())
