"""The first manifest of an index, from its options."""

from __future__ import annotations

from denslice import encoders
from denslice.errors import InputError
from denslice.options import IndexOptions
from denslice.store.manifest import LOSSLESS, Manifest, SlicingEntry


def new_manifest(options: IndexOptions) -> Manifest:
    """Return the manifest of an empty index; raise InputError if the encoder or a setting is unknown."""
    settings = encoders.checked_options(options.encoder, options.encoder_options())
    skip = settings.get("skip", 0) if options.skip is None else options.skip
    if skip > (settings.get("vocab") or skip):
        raise InputError(f"skip must lie between 0 and the vocabulary's size, not {skip!r}")
    slicing = SlicingEntry(options.slicing, options.slices, skip, options.seed)
    needs = (LOSSLESS,) if options.slices is None else ()
    filterable, cut = tuple(options.filterable), options.encoder != "vectors"
    return Manifest(options.encoder, settings, slicing, options.query, filterable, needs=needs, passages=cut)
