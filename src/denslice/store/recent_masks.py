"""The rows that passed the latest filters, so that a filter which comes again is not looked up again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

import numpy as np
import numpy.typing as npt

MASKS = 16  # filters that are remembered
LONGEST = 1_000  # characters of such a filter
RowMask = npt.NDArray[np.bool_]


class RecentMasks:
    """Masks of a segment's rows by filter, a bit for each row; the one that was not used for longest is forgotten.

    The documents of a segment never change, so a mask stays true.
    """

    def __init__(self) -> None:
        self._packed: OrderedDict[str, npt.NDArray[np.uint8]] = OrderedDict()
        self._lock = Lock()

    def mask(self, filter: str, rows: int, found: Callable[[], RowMask]) -> RowMask:
        """Return the rows that pass a filter, of which there are so many: as remembered, or as found now."""
        if len(filter) > LONGEST:
            return found()
        with self._lock:
            packed = self._packed.pop(filter, None)
        if packed is None:
            packed = np.packbits(found())
        with self._lock:
            self._packed[filter] = packed
            while len(self._packed) > MASKS:
                self._packed.popitem(last=False)
        return np.unpackbits(packed, count=rows).view(np.bool_)
