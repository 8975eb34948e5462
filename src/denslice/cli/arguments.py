"""Arguments that several commands share: the index to open, and the options of options.py as flags."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from denslice.cli.index_completion import index_folders
from denslice.errors import InputError
from denslice.options import OpenOptions, shown

if TYPE_CHECKING:
    from denslice.index.index import Index

IndexFolder = Annotated[
    Path,
    typer.Argument(metavar="INDEX", help="Folder of the index.", show_default=False, autocompletion=index_folders),
]
IndexFolders = Annotated[
    list[Path],
    typer.Argument(
        metavar="INDEX...",
        help="Folder of the index; several are searched together.",
        show_default=False,
        autocompletion=index_folders,
    ),
]
Wait = Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait for another writer.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Where = Annotated[
    str | None, typer.Option(metavar="JSON", help='Only documents that pass this filter, such as {"year": 2020}.')
]
METAVARS = {"where": "JSON", "filterable": "FIELD,...", "facets": "FIELD,...", "leave_out": "PART,..."}
NAMES = {"k": "-k", "group": " /--passages"}  # of flags that are not named as their options
HELPS = {"group": "Return passages, and not documents with their best passages."}  # of a flag that turns an option off
Command = TypeVar("Command", bound=Callable[..., None])


def flags(
    options: type, *, are_chosen: bool = False, but_for: Sequence[str] = (), **defaults: Any
) -> Callable[[Command], Command]:
    """Add a flag for each option to a command that takes **options, with its help, and its default or another one.

    If `are_chosen` is true, flags that are not given are None, and the help names the default.
    """

    def with_flags(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        types = get_type_hints(options)
        for one in (option for option in shown(options) if option.name not in but_for):
            kind, default = _as_flag(types[one.name], defaults.get(one.name, one.default))
            help = HELPS.get(one.name, one.metadata["help"])
            if are_chosen and default is not None:
                kind, default, help = kind | None, None, help + ("" if default == "" else f" Default: {default}.")
            names = (NAMES[one.name],) if one.name in NAMES else ()
            flag = typer.Option(*names, help=help, metavar=METAVARS.get(one.name), show_default=one.name not in HELPS)
            own.append(
                inspect.Parameter(
                    one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, flag]
                )
            )
        command.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return command

    return with_flags


def _as_flag(kind: Any, default: Any) -> tuple[Any, Any]:
    """Return the type and default of a flag. Lists are given with commas, objects as JSON."""
    if default == ():
        return str, ""
    return (str | None, None) if "Mapping" in str(kind) else (kind, default)


def parsed(options: Mapping[str, Any]) -> Any:
    """Return options as the library takes them, from flags as the user gave them."""
    given = dict(options)
    if given.get("where") is not None:
        try:
            given["where"] = json.loads(given["where"])
        except (ValueError, RecursionError) as error:
            raise InputError(f"--where is not JSON ({error}): {given['where']}") from None
    for name in ("filterable", "facets", "leave_out"):
        if given.get(name) is not None:
            given[name] = tuple(given[name].split(",")) if given[name] else ()
    return given


def open_folder(folder: Path, given: Mapping[str, Any] | None = None) -> Index:
    """Open the index in a folder, on the device that the flags name."""
    from denslice.cluster.cluster_folder import is_cluster
    from denslice.index.index import Index

    if is_cluster(folder):
        advice = f"serve it with `denslice serve {folder} --ray ADDRESS`, or open a shard such as {folder}/shards/00000"
        raise InputError(f"{folder}: is a cluster of shards and not one index; {advice}")
    options = OpenOptions(**parsed(given or {}))
    if options.device == "cpu":
        return Index.open(folder, queries=options.queries)
    from denslice.cli.output import progress_bar

    with progress_bar("loading onto the GPU") as bar:
        return Index.open(folder, **vars(options), progress=bar.advance)


def named_id(index: Index, given: str) -> str:
    """Return the id of a document that the user names by its id, or by the path of its file."""
    from denslice.index.followed_paths import id_at

    if index.get(given) is not None or not Path(given).is_file():
        return given
    return id_at(index.reader.snapshot.manifest, Path(given)) or given


def taken(options: type, given: dict[str, Any]) -> dict[str, Any]:
    """Remove the flags of these options from those that were given, and return them."""
    return {one.name: given.pop(one.name) for one in shown(options) if one.name in given}
