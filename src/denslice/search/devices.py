"""The searcher of each kind of device. A new kind is a folder beside cpu/ and gpu/, and a line here."""

from __future__ import annotations

from denslice.options import OpenOptions
from denslice.search.cpu.cpu_searcher import CpuSearcher
from denslice.search.gpu.gpu_searcher import GpuSearcher
from denslice.search.query import Searcher


def searcher_on(options: OpenOptions) -> Searcher:
    """Return a searcher without segments on the device that the options name."""
    return CpuSearcher() if options.device == "cpu" else GpuSearcher.named(options)
