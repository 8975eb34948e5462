"""`denslice upgrade` converts an index of an older format to the current one, in place."""

from __future__ import annotations

from denslice.cli.arguments import IndexFolder


def upgrade(folder: IndexFolder) -> None:
    """Convert an index of an older version to the current format, in place. The old index is valid until the end."""
    from denslice.cli.output import counted, progress_bar, write_line
    from denslice.index.upgrade import upgrade as upgraded

    with progress_bar("upgrading") as bar:
        done = upgraded(folder, bar.advance)
    told = f"upgraded {counted(done.docs, 'document')} ({done.reason})" if done.reason else "nothing to upgrade"
    write_line(f"{folder}: {told}")
