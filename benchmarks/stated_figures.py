"""The figures of the docs that were not measured here: settings, compared with the code, and figures of others.

As in prose_figures.py, a key is a phrase as it stands in the page. A value that is a text names the source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import make_mini
import topic_check
from contender_process import GOOD as CHOSEN
from denslice.bench import product_bench, product_texts
from denslice.bench.bench_table import GOOD
from denslice.client import document_requests, http_connections, server_replies
from denslice.cluster.input_parts import MAX_PART_BYTES, MIN_PART_BYTES
from denslice.cluster.replicas import ReplicaOptions
from denslice.corpus.formats.source_file import LARGEST_FILE
from denslice.encoders.mini import table_scales
from denslice.search.cpu import near_search
from denslice.search.gpu.cuda import STAGING_BYTES
from denslice.serve.limits import Limits
from denslice.store.container import ALIGNMENT
from denslice.store.lock import WAIT_SECONDS
from denslice.store.tiers import FANOUT
from denslice.train.config import WarmupConfig
from journal import ROOT
from quoted_figures import Value
from slicings import PARITY

MINI = ROOT / "src" / "denslice" / "mini"
LATER_CODE = "the paper's authors' later code, as the page says"
TABLE1 = "the paper, table 1: of uniCOIL's MRR@10 on MS MARCO dev"
ARRAYS = "the paper's arrays: a value of two bytes and a gate of one for each slice"
TREC = "the paper, tables 1 and 2, for TREC DL 2019 and 2020"

OTHERS: dict[str, Mapping[str, Value]] = {
    "docs/reproduction.md": {
        '"Less than 1 % is lost with 768 slices, about 2 % and 4 % with 256 and 128"': TABLE1,
        "The paper's arrays have 3 bytes per slice": ARRAYS,
        "2,304 bytes a passage with 768 slices": 3 * 768,
        "| uniCOIL | all | | 0.621 | 0.775 | 0.633 | 0.794 |": TREC,
        "| uniCOIL | 768 | | 0.615 | 0.769 | 0.632 | 0.792 |": TREC,
        "| uniCOIL | 256 | | 0.605 | 0.751 | 0.622 | 0.788 |": TREC,
        "| uniCOIL | 128 | | 0.605 | 0.744 | 0.614 | 0.782 |": TREC,
        '| SPLADE (another one, "for reference only") | all | | 0.684 | 0.851 |': TREC,
        "| SPLADE | 768 | | 0.681 | 0.831 | 0.655 | 0.824 |": TREC,
        "| SPLADE | 256 | | 0.667 | 0.820 | 0.651 | 0.822 |": TREC,
        "| SPLADE | 128 | | 0.657 | 0.810 | 0.657 | 0.812 |": TREC,
        "| [CLS] | | 768 | 0.626 | | 0.625 |": TREC,
        "| uniCOIL + [CLS] | 768 | 768 | 0.678 | | 0.704 |": TREC,
        "| SPLADE + [CLS] | 768 | 768 | 0.697 | | 0.677 |": TREC,
        "| uniCOIL + [CLS] | 256 | 256 | 0.680 | | 0.688 |": TREC,
        "| SPLADE + [CLS] | 256 | 256 | 0.711 | | 0.678 |": TREC,
        "| uniCOIL + [CLS] | 128 | 128 | 0.679 | | 0.671 |": TREC,
        "| SPLADE + [CLS] | 128 | 128 | 0.709 | | 0.673 |": TREC,
    },
    "docs/training.md": {
        "losses below 1 % with 768 slices and of about 2 % and 4 % with 256 and 128": TABLE1,
        "over the first 10 % of the steps": LATER_CODE,
    },
}


def settings() -> dict[str, Mapping[str, Value]]:
    """Return the settings and limits that pages state, from the code."""
    return {
        "CHANGELOG.md": {"ten seconds by default (`wait=`": WAIT_SECONDS},
        "MODEL_CARD.md": model_card(),
        "docs/benchmarks.md": {"that reaches recall@10 ≥ 0.97": GOOD, "reaches recall@10 of 0.97 with them": GOOD},
        "docs/client.md": client(),
        "docs/files.md": {"unpacks to more than 256 MB": LARGEST_FILE / 2**20},
        "docs/gpu.md": {
            "cut into pieces of 64 MB": STAGING_BYTES / 2**20,
            "4 bytes for each passage and query in flight": "search/gpu/gpu_share.py: a product is a float32",
        },
        "docs/index-format.md": {
            "the arrays start at a multiple of 64 bytes": ALIGNMENT,
            "padded with zeros to a multiple of 64 bytes": ALIGNMENT,
        },
        "docs/large-collections.md": large_collections(),
        "docs/living-index.md": living_index(),
        "docs/mini.md": mini(),
        "docs/passages.md": {"its dense vector (768 bytes for `mini`)": 384 * 2},
        "docs/products.md": {
            "cut after at most 400 characters": product_texts.LENGTH == 400,
            "needs over five minutes for them": product_bench.SECONDS / 60,
        },
        "docs/scaling.md": {
            "8 bytes of BLAKE2b": "cluster/cluster_folder.py: the digest that gives a document its shard",
            "into parts of 1 to 64 MB": (MIN_PART_BYTES / 2**20, MAX_PART_BYTES / 2**20),
            "it waited one second (`patience`)": ReplicaOptions().patience,
        },
        "docs/serving.md": serving(),
        "docs/slicing.md": {"difference exceeds 0.005": PARITY},
        "docs/training.md": {"`mask` | 0, 96, 5e-4, 0, 0.15": WarmupConfig().mask},
    }


def client() -> Mapping[str, Value]:
    """Return the pauses, timeouts and sizes of a client."""
    retries, pause = server_replies.ServerAddress("http://localhost").retries, server_replies.FIRST_PAUSE
    return {
        "up to 4 MB as JSON": document_requests.USUAL_BYTES / 2**20,
        "after 0.2, 0.4 and 0.8 seconds": [pause * 2**n for n in range(retries)],
        "more than 30 seconds away": server_replies.LONGEST_PAUSE,
        "five seconds for a connection": http_connections.CONNECT_TIMEOUT,
        "A write waits ten minutes": http_connections.WRITE_TIMEOUT / 60,
    }


def large_collections() -> Mapping[str, Value]:
    """Return the shares of vectors that are read at a pruning of 0.3, and what other collections are held to."""
    ways = (near_search.BESIDE_WORDS, near_search.ALONE)
    return {
        "or four times as many as are asked for": near_search.WORDS_PER_K,
        "8 % and 24 % at 0.3": [100 * one.share(0.3, near_search.MANY) for one in ways],
        "by a cosine of 0.25 at 0.3": ways[0].reach / 0.3,
        "differs by more than .02 at any share": topic_check.ALLOWED,
        "from 1 % to 20 %": (100 * topic_check.READ[0], 100 * topic_check.READ[-1]),
        "for recall@10 of .99 or more": CHOSEN,
    }


def living_index() -> Mapping[str, Value]:
    """Return the sizes of tiers, the wait for a lock, the scales of quick documents, and the kills of `make crash`."""
    crash = (ROOT / "Makefile").read_text(encoding="utf-8")
    writer, deepen = (int(found) for found in re.findall(r"kill_(?:writer|deepen)\.py --kills (\d+)", crash))
    return {
        "kills a writer 1,000 times at random": writer,
        "A writer waits up to ten seconds for the lock": WAIT_SECONDS,
        "words count 2.2 times and its vector 0.9 times": table_scales("mini"),
        "kills deepening and adding processes 200 times": deepen,
        "each eight times as large as the one below": FANOUT,
    }


def mini() -> Mapping[str, Value]:
    """Return the shares of training runs, and λ of the untrained models."""
    shares = make_mini.BODY
    return {
        "*BM25 + …* adds 40 times their cosine": make_mini.PLAIN_SEARCH["lam"],
        "no teacher | 0.15 |": shares["bold"],
        "| together | 1e-5 | sum, untrained model as teacher | 0.425 |": shares["together"],
        "| broader | 2e-5, larger batches | sum, untrained model as teacher | 0.425 |": shares["broader"],
    }


def model_card() -> Mapping[str, Value]:
    """Return λ and the size of the embedded model, and the shares of its training runs."""
    settings = json.loads((MINI / "denslice.json").read_text(encoding="utf-8"))
    shares = [make_mini.BODY[name] for name in ("bold", "together", "broader")]
    size = sum(path.stat().st_size for path in MINI.iterdir() if path.is_file())
    return {
        "plus λ = 50 times the cosine": settings["lam"],
        "58 MB with tokenizers and table": size / 1e6,
        "0.15 of bold, 0.425 of together and 0.425 of broader": shares,
    }


def serving() -> Mapping[str, Value]:
    """Return the limits of a server that have units."""
    limits = Limits()
    return {
        "1048576, 33554432 bytes": (limits.max_body, limits.max_write_body),
        "10 seconds for a search, with its time in the queue": limits.timeout,
        "10, 20 seconds for a client to send": (limits.header_timeout, limits.body_timeout),
        "30 seconds in which a client receives nothing": limits.send_timeout,
        "1 second between checks": limits.refresh_seconds,
        "`--slow-ms 200` logs each search that takes 200 milliseconds or more": 200,
    }
