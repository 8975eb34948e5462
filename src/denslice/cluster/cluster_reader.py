"""ClusterReader: one commit of every shard, searched as one index. Queries are encoded here, replicas search."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from denslice.cluster.cluster_folder import Layout
from denslice.cluster.replica import Explain, Fetch, FetchFound, FetchPlaces, FetchVectors, Find, ReplicaRequest
from denslice.cluster.replicas import Replicas
from denslice.errors import MissingShardsError
from denslice.index.found_docs import FoundScore, found_scores
from denslice.index.index_info import IndexInfo
from denslice.index.match_requests import MatchRequest
from denslice.index.ranking_merge import merge
from denslice.index.reader import Reader
from denslice.index.similar import StoredVectors
from denslice.options import SearchOptions
from denslice.rankings import Explanation, FoundDoc
from denslice.records import Doc, Place
from denslice.search.query import Found, QueryVectors
from denslice.stage_timers import stage
from denslice.store.manifest import QUICK
from denslice.store.segment import Segment
from denslice.store.snapshot import Snapshot
from denslice.vectors import Ints


class ClusterStatistics:
    """Frequencies of tokens in the whole collection. They do not depend on which shards answer."""

    def __init__(self, shards: tuple[Snapshot, ...], vocab: int, before: ClusterStatistics | None = None) -> None:
        self.shards = shards
        self.vocab = vocab
        self._before = before if before and "_frequencies" in vars(before) else None

    @property
    def docs(self) -> int:
        """The number of documents."""
        return sum(shard.docs for shard in self.shards)

    @cached_property
    def passages(self) -> int:
        """The number of passages."""
        return sum(shard.passages for shard in self.shards)

    def passage_frequencies(self, keys: Ints) -> Ints:
        """Return how many passages have each token."""
        return self._frequencies[keys]

    @cached_property
    def _frequencies(self) -> Ints:
        """How many passages have each token (vocab,), updated from the previous reader by changed shards."""
        total = np.zeros(self.vocab, dtype=np.int64)
        before, self._before = self._before, None
        if before:
            total[: before.vocab] += before._frequencies
        for shard in set(before.shards if before else ()) ^ set(self.shards):
            counts = shard.passage_frequencies(np.arange(self.vocab))
            total += counts if shard in self.shards else -counts
        return total


class ClusterReader(Reader):
    """The commits of the head and of the shards when this reader was made. Replicas may show later ones."""

    def __init__(self, layout: Layout, replicas: Replicas, complete: bool, before: ClusterReader | None = None) -> None:
        head, queries = Snapshot(layout.head, before.snapshot if before else None), replicas.options.on.queries
        super().__init__(head, queries=queries)
        self.layout = layout
        self.replicas = replicas
        self.complete = complete
        known = {shard.folder: shard for shard in (before.shards if before else ())}
        self.shards: tuple[Snapshot, ...] = tuple(_opened(layout, number, known) for number in range(layout.shards))
        self.counts: ClusterStatistics = ClusterStatistics(self.shards, self.vocab, before.counts if before else None)
        self.statistics = self.counts

    @property
    def generation(self) -> int:
        """The sum of the generations of the head and all shards, which grows with every commit."""
        return sum(one.manifest.generation for one in (self.snapshot, *self.shards))

    @property
    def commit(self) -> str:
        """The joined names of the commits of the head and all shards."""
        return "-".join(one.manifest.commit for one in (self.snapshot, *self.shards))

    def finds_best(self, query: QueryVectors, options: SearchOptions) -> bool:
        """Return whether every shard finds its best documents for certain, wherever it is searched."""
        return options.is_exact(query.dense is not None)

    def find(self, queries: Sequence[QueryVectors], options: SearchOptions) -> list[Found]:
        """Search all shards, with one call to each, and merge their rankings for each query."""
        with stage("search"):
            answers, missing = self._ask_all(Find(queries, options))
        found = ({shard: answer[at] for shard, answer in answers.items()} for at in range(len(queries)))
        return [merge(one, options.k, missing) for one in found]

    def gather(self, request: MatchRequest) -> tuple[Sequence[Any], tuple[str, ...]]:
        """Return the answers of the shards, and the names of those that did not answer."""
        answers, missing = self._ask_all(request)
        return list(answers.values()), missing

    def vectors_of(self, id: str) -> StoredVectors | None:
        """Return the stored vectors of the document with this id, or None if it is not there."""
        return cast(StoredVectors | None, self._ask_owner(id, FetchVectors(id)))

    def explain_vectors(
        self, query: QueryVectors, whole: QueryVectors, id: str, passage: int | None = None
    ) -> Explanation:
        """Explain the score of a document or a passage in its shard."""
        return cast(Explanation, self._ask_owner(id, Explain(query, whole, id, passage)))

    def get(self, id: str) -> Doc | None:
        """Return the document with this id, or None."""
        return cast(Doc | None, self._ask_owner(id, Fetch([id]))[0])

    def places(self, id: str) -> list[Place] | None:
        """Return where the passages of the document with this id are, in order, or None if it is not there."""
        return cast(list[Place] | None, self._ask_owner(id, FetchPlaces(id)))

    def every_segment(self) -> list[Segment]:
        """Return the segments of all shards."""
        return [segment for shard in self.shards for segment in shard.segments]

    def info(self) -> IndexInfo:
        """Describe the cluster like an index, with counts and sizes over all shards."""
        entries = [segment for shard in self.shards for segment in shard.manifest.segments]
        return replace(
            super().info(),
            path=str(self.layout.folder),
            shards=self.layout.shards,
            replicas=self.replicas.options.replicas,
            documents=self.counts.docs,
            passages=self.counts.passages if self.snapshot.manifest.passages else None,
            quick=sum(segment.docs for segment in entries if segment.level == QUICK),
            deleted=sum(segment.deleted for segment in entries),
            segments=len(entries),
            generation=self.generation,
            weights=sum(segment.weights for segment in entries),
            bytes=sum(shard.bytes() for shard in self.shards) + self.snapshot.bytes(),
        )

    def documents(self, found: Found, query: QueryVectors) -> list[FoundDoc]:
        """Fetch the documents of a ranking in its order. One that was deleted meanwhile has only its id."""
        wanted = list(zip(found.ids, found_scores(found), strict=True))
        owned: dict[int, list[tuple[str, FoundScore]]] = {}
        for one in wanted:
            owned.setdefault(self.layout.owner(one[0]), []).append(one)
        with stage("documents"):
            answers = self._ask({shard: pickle.dumps(FetchFound(query, some)) for shard, some in owned.items()})
        if missing := [self._name(shard) for shard in owned if shard not in answers]:
            raise MissingShardsError(missing)
        pairs = (zip(some, answers[shard], strict=True) for shard, some in owned.items())
        docs: dict[tuple[str, FoundScore], FoundDoc | None] = {one: doc for some in pairs for one, doc in some}
        return [docs[one] or (Doc(one[0]), ()) for one in wanted]

    def _ask_all(self, question: ReplicaRequest) -> tuple[dict[int, Any], tuple[str, ...]]:
        """Return the responses of all shards, and the names of those that did not answer."""
        answers = self._ask(dict.fromkeys(range(self.layout.shards), pickle.dumps(question)))
        missing = tuple(self._name(shard) for shard in range(self.layout.shards) if shard not in answers)
        if missing and (self.complete or not answers):
            raise MissingShardsError(missing)
        return answers, missing

    def _ask_owner(self, id: str, question: ReplicaRequest) -> Any:
        """Return the response of the shard that owns an id."""
        shard = self.layout.owner(id)
        answers = self._ask({shard: pickle.dumps(question)})
        if shard not in answers:
            raise MissingShardsError([self._name(shard)])
        return answers[shard]

    def _ask(self, questions: dict[int, bytes]) -> dict[int, Any]:
        """Send requests to shards, and return responses at the commits of this reader or later ones."""
        commits = {shard: self.shards[shard].manifest.commit for shard in questions}
        answers = self.replicas.ask({shard: (commits[shard], asked) for shard, asked in questions.items()})
        return {shard: pickle.loads(answer) for shard, answer in answers.items()}

    def _name(self, shard: int) -> str:
        return str(self.layout.shard(shard).relative_to(self.layout.folder))


def _opened(layout: Layout, number: int, known: dict[Any, Snapshot]) -> Snapshot:
    """Return a shard at its last commit, reusing the known snapshot if it is of that commit."""
    before = known.get(layout.shard(number))
    shard = Snapshot(layout.shard(number), before)
    return before if before and before.manifest.commit == shard.manifest.commit else shard
