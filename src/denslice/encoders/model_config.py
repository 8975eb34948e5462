"""ModelConfig: the heads and limits of a transformer model. It needs no torch, so settings are checked without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from denslice.analysis.languages import language_named
from denslice.encoders.bm25 import Bm25Config
from denslice.errors import InputError
from denslice.scalars import number, whole_number

CONFIG_FILE = "denslice.json"  # of a model's folder
LEXICAL_HEADS = ("none", "splade", "unicoil", "words")
TOKEN_HEADS = ("unicoil", "words")  # those with a head on each token
DENSE_POOLINGS = ("none", "cls", "mean")


@dataclass(frozen=True)
class ModelConfig:
    """A model's heads and limits: a lexical head, a dense one, or both on one backbone (joint).

    The lexical head is `splade` or `unicoil` over the tokenizer's pieces, or `words`: the BM25 weight of each stemmed
    word times its importance, which is 1 before training.
    `dimensions` is the width of the dense vector: None means that of the backbone, a number a linear projection to it.
    With `head_width` the head of a token is Linear–GELU–Linear of that width instead of one Linear. `lam` is the factor
    of the dense score (paper eq. 9). `b`, `average_length` and `phrases` are settings of BM25 for `words`; training
    uses no phrases, indexes do. The lengths of texts are in tokens, special ones included. A prompt is put before
    every text. `languages` are those that the model was trained on, if not all: it reads no text of another one.
    """

    lexical: str = "none"
    dense: str = "none"
    dimensions: int | None = None
    normalise: bool = False
    lam: float = 1.0
    b: float = 0.4
    average_length: float = 100.0  # mini is as good with it as with the average of each collection
    phrases: float = 0.0
    max_length: int = 256
    query_length: int = 64
    head_width: int | None = None
    query_prompt: str = ""
    doc_prompt: str = ""
    languages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_choice("lexical", self.lexical, LEXICAL_HEADS)
        _check_choice("dense", self.dense, DENSE_POOLINGS)
        if self.lexical == self.dense == "none":
            raise InputError("a model needs a lexical head, a dense one or both; lexical and dense are none")
        if self.dense == "none" and (self.dimensions is not None or self.normalise):
            raise InputError("dimensions and normalise belong to the dense vector, and dense is none")
        if self.lexical not in TOKEN_HEADS and self.head_width is not None:
            heads = " and ".join(TOKEN_HEADS)
            raise InputError(f"head_width belongs to the head of {heads}, and lexical is {self.lexical}")
        if self.lexical == "words" and (self.query_prompt or self.doc_prompt):
            raise InputError("lexical is words, and the words of a prompt would be weighed as words of the text")
        object.__setattr__(self, "languages", tuple(map(language_named, self.languages)))
        self._check_types()

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a JSON object."""
        return asdict(self) | {"languages": list(self.languages)}

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> ModelConfig:
        """Return the settings of a JSON object; missing keys have their defaults."""
        names = [field.name for field in fields(cls)]
        unknown = sorted(set(settings) - set(names))
        if unknown:
            raise InputError(f"a model has no setting {', '.join(unknown)}; it has {', '.join(names)}")
        return cls(**settings)

    def _check_types(self) -> None:
        least = {"dimensions": 1, "head_width": 1, "max_length": 3, "query_length": 3}  # [CLS], one token, [SEP]
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
