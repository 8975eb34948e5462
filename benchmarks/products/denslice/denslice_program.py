"""denslice on a folder of files: words alone, the quick level, or the full one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from product_protocol import Product, Text, answer_all

import denslice

ENCODERS = {"words": "bm25", "quick": "mini", "full": "mini"}
LEVELS = {"words": "full", "quick": "quick", "full": "quick"}  # of the first pass


class Denslice(Product):
    """An index that follows the folder."""

    needs_minilm = False
    packages = ("numpy", "onnxruntime")
    about_model = "in the package"
    explains = "what each word, each phrase and the vector added; the parts sum to the score"

    def build(self, folder: Path) -> int:
        if not self.store.exists():
            self.index = denslice.Index.create(self.store, ENCODERS[self.way], filterable=["path"])
            self.index.sync(folder, level=LEVELS[self.way])
        elif not hasattr(self, "index"):
            self.open()
        return self._deepened() if self.way == "full" else 0

    def search(self, text: str, k: int) -> list[str]:
        return _names(self.index.search(text, k=k))

    # --- more

    def _deepened(self) -> int:
        """Encode the documents of one commit fully and return how many are left."""
        self.index.deepen(AT_ONCE)
        return self.index.info().quick

    def open(self) -> None:
        self.index = denslice.open_index(self.store)

    def search_in(self, part: str, text: str, k: int) -> list[str]:
        within = {"path": {"gte": f"{ROOT}{part}/", "lt": f"{ROOT}{part}0"}}  # 0 comes after / among characters
        return _names(self.index.search(text, k=k, where=within))

    def ids(self) -> list[str]:
        return [doc.id.removeprefix(ROOT) for doc in self.index.list_docs()]

    def add(self, docs: Sequence[Text]) -> None:
        level = "quick" if self.way == "quick" else "full"
        records = [{"id": ROOT + doc["id"], "path": ROOT + doc["id"], "text": doc["text"]} for doc in docs]
        self.index.add(records, level=level)

    def delete(self, ids: Sequence[str]) -> None:
        self.index.delete([ROOT + id for id in ids])

    def explain(self, text: str, id: str) -> Any:
        why = self.index.explain(text, ROOT + id)
        return {"dense": why.dense, "terms": {term.token: term.contribution for term in why.terms}}

    def about(self) -> dict[str, Any]:
        told = super().about()
        kind = "words" if self.way == "words" else self.search_kind
        return told | {"search_kind": kind, "versions": told["versions"] | {"denslice": denslice.__version__}}


AT_ONCE = 512  # documents of a commit, after which the time is noted
ROOT = "texts/"  # ids begin with the name of the folder


def _names(hits: denslice.Ranking) -> list[str]:
    return [id.removeprefix(ROOT) for id in hits.ids]


if __name__ == "__main__":
    answer_all(Denslice)
