"""IndexInfo: the description of an index as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from denslice import encoders
from denslice.encoders.chunk_terms import FORM
from denslice.html_views import card_html
from denslice.store.manifest import QUICK
from denslice.store.snapshot import Snapshot


@dataclass(frozen=True)
class IndexInfo:
    """The encoder and slicing of an index, and the counts and sizes of the commit that is shown."""

    path: str
    documents: int
    passages: int | None  # None if documents are not cut into passages
    quick: int  # documents that are still at the quick level
    deleted: int
    segments: int
    generation: int
    encoder: str
    encoder_options: Mapping[str, Any]
    slicing: str | None
    slices: int | None  # None: every token is kept
    skip: int
    seed: int
    query: str
    filterable: tuple[str, ...]
    dimensions: int | None
    vocabulary: int
    languages: Mapping[str, int]  # passages in each language, where it is recognised
    model_languages: tuple[str, ...]  # that the model of the dense vectors knows; none if it is not limited to any
    earlier_model: bool  # an earlier edition of the embedded model made the dense vectors: words alone decide
    weights: int
    bytes: int
    shards: int | None = None  # of a cluster
    replicas: int | None = None

    @classmethod
    def of(cls, snapshot: Snapshot, vocabulary: int, languages: Mapping[str, int]) -> IndexInfo:
        """Return the description of a commit from its manifest and files."""
        manifest, slicing = snapshot.manifest, snapshot.manifest.slicing
        return cls(
            path=str(snapshot.folder),
            documents=snapshot.docs,
            passages=snapshot.passages if manifest.passages else None,
            quick=sum(segment.docs for segment in manifest.segments if segment.level == QUICK),
            deleted=sum(segment.deleted for segment in manifest.segments),
            segments=len(manifest.segments),
            generation=manifest.generation,
            encoder=manifest.encoder,
            encoder_options=dict(manifest.encoder_options),
            slicing=slicing.kind,
            slices=slicing.slices,
            skip=slicing.skip,
            seed=slicing.seed,
            query=manifest.query,
            filterable=tuple(manifest.filterable),
            dimensions=manifest.dimensions,
            vocabulary=vocabulary - snapshot.words.count_starting_with(FORM),
            languages=languages,
            model_languages=encoders.model_languages(manifest.encoder, manifest.encoder_options),
            earlier_model=encoders.has_earlier_model(manifest.encoder, manifest.encoder_options),
            weights=sum(segment.weights for segment in manifest.segments),
            bytes=snapshot.bytes(),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that `denslice info --json` prints."""
        fields = asdict(self) | {"filterable": list(self.filterable), "model_languages": list(self.model_languages)}
        of_clusters = ("shards", "replicas")
        return {name: value for name, value in fields.items() if value is not None or name not in of_clusters}

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def _repr_html_(self) -> str:
        """Return the description as a notebook shows it."""
        facts = {
            "documents": f"{self.documents:,}",
            "passages": "" if self.passages is None else f"{self.passages:,}",
            "at the quick level": f"{self.quick:,}" if self.quick else "",
            "encoder": self.encoder,
            "slices": f"{self.slices:,}, {self.slicing}" if self.slices else "",
            "filterable": ", ".join(self.filterable),
            "size": f"{self.bytes / 1e6:,.1f} MB",
            "last commit": f"{self.generation:,}",
        }
        return card_html(self.path, {name: fact for name, fact in facts.items() if fact})
