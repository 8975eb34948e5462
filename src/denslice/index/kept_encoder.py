"""KeptEncoder: an encoder that serves one commit after another, so that it analyses a word once and not in each."""

from __future__ import annotations

from denslice import encoders
from denslice.encoders import Encoder
from denslice.store.snapshot import Snapshot
from denslice.store.vocabulary import Growth


class KeptEncoder:
    """The encoder of the last commit, which reads the documents of the next one too.

    If another writer has added words in between, it is loaded anew.
    """

    def __init__(self) -> None:
        self._kept: tuple[Growth, Encoder] | None = None

    def after(self, base: Snapshot) -> tuple[Growth, Encoder]:
        """Return the vocabulary that grows from a commit, and the encoder that reads documents over it."""
        if self._kept is None or not self._kept[0].go_on(base.words):
            words = Growth(base.words)
            self._kept = words, encoders.load(base.manifest.encoder, base.manifest.encoder_options, words)
        return self._kept
