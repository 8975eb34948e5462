"""ModelConfig: what a transformer model makes of a text. No torch here, so that settings can be checked without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from denslice.encoders.bm25 import Bm25Config
from denslice.errors import InputError
from denslice.scalars import number, whole_number

CONFIG_FILE = "denslice.json"  # its name in a model's folder
LEXICAL_HEADS = ("none", "splade", "unicoil", "words")
TOKEN_HEADS = ("unicoil", "words")  # lexical parts with a head of their own on each token
DENSE_POOLINGS = ("none", "cls", "mean")


@dataclass(frozen=True)
class ModelConfig:
    """A model's heads and limits: a lexical head, a dense one, or both on one backbone (joint).

    The lexical part is `splade` or `unicoil` over the tokenizer's pieces, or `words`: BM25's weight of each stemmed
    word times an importance that the model gives it, 1 before training.
    `dimensions` is the width of the dense vector: None is the backbone's own, a number a linear projection to it.
    `head_width` makes a token's head Linear–GELU–Linear of that width instead of one Linear. `lam` weighs the dense
    score (paper eq. 9). `b`, `average_length` and `phrases` are BM25's, for `words`: training has no phrases, indexes
    do. Other lengths are in tokens, special ones included; the prompts are put before every text.
    """

    lexical: str = "none"
    dense: str = "none"
    dimensions: int | None = None
    normalise: bool = False
    lam: float = 1.0
    b: float = 0.4
    average_length: float = 100.0  # mini does as well with it as with each collection's own
    phrases: float = 0.0
    max_length: int = 256
    query_length: int = 64
    head_width: int | None = None
    query_prompt: str = ""
    doc_prompt: str = ""

    def __post_init__(self) -> None:
        _check_choice("lexical", self.lexical, LEXICAL_HEADS)
        _check_choice("dense", self.dense, DENSE_POOLINGS)
        if self.lexical == self.dense == "none":
            raise InputError("a model needs a lexical head, a dense one or both; lexical and dense are none")
        if self.dense == "none" and (self.dimensions is not None or self.normalise):
            raise InputError("dimensions and normalise shape the dense vector, and dense is none")
        if self.lexical not in TOKEN_HEADS and self.head_width is not None:
            raise InputError(
                f"head_width belongs to the head of {' and '.join(TOKEN_HEADS)}, and lexical is {self.lexical}"
            )
        if self.lexical == "words" and (self.query_prompt or self.doc_prompt):
            raise InputError("prompts would be weighed as words of the text, and lexical is words")
        self._check_types()

    def to_json(self) -> dict[str, Any]:
        """The settings as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> ModelConfig:
        """The settings that `to_json` gave; keys left out keep their defaults."""
        names = [field.name for field in fields(cls)]
        unknown = sorted(set(settings) - set(names))
        if unknown:
            raise InputError(f"a model has no setting {', '.join(unknown)}; it has {', '.join(names)}")
        return cls(**settings)

    def _check_types(self) -> None:
        least = {"dimensions": 1, "head_width": 1, "max_length": 3, "query_length": 3}  # a token in [CLS] … [SEP]
        for name, count in least.items():
            if getattr(self, name) is not None or name.endswith("length"):
                object.__setattr__(self, name, whole_number(name, getattr(self, name), count))
        for name in ("query_prompt", "doc_prompt"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"{name} is {getattr(self, name)!r}, expected a string")
        if not isinstance(self.normalise, bool):
            raise InputError(f"normalise is {self.normalise!r}, expected true or false")
        object.__setattr__(self, "lam", number("lam", self.lam, 0))
        words = Bm25Config(b=self.b, average_length=self.average_length, phrases=self.phrases)
        for name in ("b", "average_length", "phrases"):
            object.__setattr__(self, name, getattr(words, name))


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{name} is {value!r}, expected one of {', '.join(choices)}")
