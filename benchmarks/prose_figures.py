"""The ledger: for each page, the figures in its prose with what the result lines say.

A key is a phrase as it stands in the page, once. Its value is computed from lines: one number for each figure of the
phrase, which the page may round, or whether a claim in words is true. tests/test_figures.py compares them. Figures that
were not measured here are in stated_figures.py, and those that quote a made table of their page are in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from journal import Line, lines
from pages import ACL, MILLION, STAGES, cpu_runs
from quoted_figures import Value

PAPER = "PyTorch, as the paper: "


def measured() -> dict[str, Mapping[str, Value]]:
    """Return what lines say of the phrases of each page."""
    pages: dict[str, Callable[[], Mapping[str, Value]]] = {
        "README.md": readme,
        "docs/agents.md": agents,
        "docs/benchmarks.md": benchmarks,
        "docs/evidence.md": evidence,
        "docs/gpu.md": gpu,
        "docs/lab-notes.md": lab_notes,
        "docs/living-index.md": living_index,
        "docs/mini.md": mini,
        "docs/products.md": products,
        "docs/reproduction.md": reproduction,
        "docs/scaling.md": scaling,
        "docs/serving.md": serving,
        "docs/words-measured.md": words,
    }
    return {page: figures() for page, figures in pages.items()}


def readme() -> Mapping[str, Value]:
    """Return the time of a search of a million documents, and how much faster BM25 indexes than the model."""
    words, full = (product_rate(level) for level in ("words", "full"))
    return {
        "with 768 slices take 0.75 ms on one core": _search(cpu_runs()[MILLION, 768], "denslice", 10)["p50_ms"],
        "indexing is at least 25 times as fast": words > 25 * full,
    }


def agents() -> Mapping[str, Value]:
    """Return the error of the estimate of tokens, and half the intervals of shares."""
    line = newest("agent_reading")
    found, asked = line["figures"], line["figures"]["questions"]
    searched = found["4000"]["search"]
    shares = [one["whole"] for budget in line["configuration"]["budgets"] for one in found[str(budget)].values()]
    halves = [196 * (share * (1 - share) / asked) ** 0.5 for share in shares]
    return {
        "28 % more than mini's word pieces": 100 * (searched["tokens"] / searched["word_pieces"] - 1),
        "± 4 to 9 points": (min(halves), max(halves)),
    }


def benchmarks() -> Mapping[str, Value]:
    """Return what Seismic and the paper's method reach."""
    seismic = _contender(cpu_runs()[MILLION, 768], "Seismic")["settings"]
    complete = [one for one in seismic if one["k"] == 1_000 and one["recall@10"] == 1]
    paper = _search(cpu_runs()[ACL, 768], "the paper's method, PyTorch", 10)
    return {
        "(1.000, in 4 ms at k = 1000)": (1.0, min(one["p50_ms"] for one in complete)),
        "nor the paper's method (0.954)": paper["recall@10"],
    }


def evidence() -> Mapping[str, Value]:
    """Return the figures of objections."""
    once = next(one for one in lines("quick_rate") if one["configuration"]["copies"] == 1)["figures"]["quick"]
    joined = next(one for one in reversed(lines("long_documents")) if one["configuration"]["joined"])
    articles = joined["figures"]["ndcg@10"]["squad-dev:test"]
    size = newest("gpu")["configuration"]["docs"]
    largest = [one for one in lines("large_collections") if one["configuration"]["documents"] == size][-1]
    exact = next(one for one in largest["figures"]["hybrid"] if (one["k"], one["pruning"]) == (10, 0))
    texts = [one for one in lines("large_collections") if one["configuration"].get("source") in (None, "texts")][-1]
    usual = next(one for one in texts["figures"]["hybrid"] if (one["k"], one["pruning"]) == (10, 0.3))
    reading = newest("encode_mini")["figures"]
    checked = newest("hybrid_contenders")["figures"]["denslice"]["settings"]
    return {
        "(0.963, and 0.964 for words": (articles["whole"]["lexical"], articles["passages"]["hybrid"]),
        "indexed at 4,059 a second, the first search after 3.6 s": (once["documents_a_second"], once["first_search_s"]),
        "some forty passages a second": 35 < reading["passages_a_second"]["mini"] < 45,
        "exact search took [twice as long]": 1.9 < against_seismic() < 2.1,
        "takes several times as long": reading["query_ms"]["p50"] > 5 * usual["p50_ms"],
        "two cores would take over half a day": 12 < size / product_rate("full") / 3600 < 18,
        "Exact search takes 190 ms": exact["p50_ms"],
        "exact hybrid search takes 3.6 ms": gpu_ms("hybrid exact, every slice"),
        "finds 0.9999 of the 100 best": next(
            one["recall@100"] for one in checked if (one["k"], one["setting"]) == (100, {"pruning": 0.0})
        ),
    }


def products() -> Mapping[str, Value]:
    """Return how many times as fast MiniLM's body was in int8: the first edition had it alone."""
    return {"MiniLM's body was 2.4 times as fast": by_commit("encode_mini", "5ec70ee179af")["figures"]["times_as_fast"]}


def gpu() -> Mapping[str, Value]:
    """Return shares of times, and what follows from the numbers of gates and documents."""
    ways = [gpu_ms(STAGES, gates) / gpu_ms("exact, every slice", gates) for gates in ("uniform", "Zipf-like")]
    likely = [1 / gate for gate in range(1, 40)]
    return {
        "Two stages take 71 % of the time": 100 * ways[0],
        "and 32 % if they are Zipf-like": 100 * ways[1],
        "3.5 times as long": 39 * sum(one**2 for one in likely) / sum(likely) ** 2,
        "13.6 GB with 768 dimensions": gpu_gigabytes(),
    }


def lab_notes() -> Mapping[str, Value]:
    """Return what phrases and int8 change, and times of the GPU before and after two changes."""
    means = {(one["weights"], one["phrases"]): fmean(d["40"] for d in one["ndcg@10"].values())
             for one in lines("mini_phrases")}  # fmt: skip
    gains = [mean - means[body, 0.0] for (body, weight), mean in means.items() if weight == 0.3]
    int8, whole = [one for one in lines("mini_quality") if one["commit"] == "36e77c2f2329"]
    found = [fmean(one["figures"]["ndcg@10"][name]["768"]["hybrid"] for name in whole["figures"]["ndcg@10"])
             for one in (int8, whole)]  # fmt: skip
    slow, quick, last = "ef199c757bfa", "272e307ff9f7", "56f68c721803"
    weights = "exact, 64 weights"
    return {
        "add about 0.003 with every body": fmean(gains),
        "fiqa-judged and cranfield (0.6152;": found[0] if f"{found[0]:.4f}" == f"{found[1]:.4f}" else False,
        "The whole bodies take 1.5 times as long": encoding_time(),
        "two stages went from 0.223 to 0.177 ms": (gpu_ms(STAGES, commit=quick), gpu_ms(STAGES, commit=last)),
        "64 weights went from 0.159 to 0.109 ms": (gpu_ms(weights, commit=slow), gpu_ms(weights, commit=quick)),
        "768 dense dimensions are 13.6 GB": gpu_gigabytes(),
    }


def living_index() -> Mapping[str, Value]:
    """Return what merging wrote, and how often was added."""
    return {
        "Merging wrote 0.26 times the bytes": by_commit("commits", "d53a8fa2fc35")["merged / first"],
        "one query is searched, 500 times over": newest("adds_while_deepening")["configuration"]["adds"],
    }


def mini() -> Mapping[str, Value]:
    """Return what average lengths reach, and the time of two bodies."""
    dev, mini_dev = (one for one in lines("average_length") if one["commit"] == "5cce165d06d9")
    test = by_commit("average_length", "e8088c70820e")
    near = [mean for length, mean in mini_dev["figures"]["mean"].items() if length.isdigit() and int(length) >= 60]
    return {
        "0.6572 against 0.6487": [dev["figures"]["mean"][name] for name in ("40", "measured")],
        "0.5650 against 0.5540": [test["figures"]["mean"][name] for name in ("40", "measured")],
        "between 0.7045 and 0.7057 from 60 to 200 words": (min(near), max(near)),
        "Two bodies take about one and a half times as long as one": 1.45 < encoding_time() < 1.55,
    }


def reproduction() -> Mapping[str, Value]:
    """Return times of the paper's method in PyTorch, and what two stages save there and with posting lists."""
    exact, stages = gpu_ms(f"{PAPER}every slice"), gpu_ms(f"{PAPER}{STAGES}")
    saved = [gpu_ms("exact, every slice", gates) / gpu_ms(STAGES, gates) for gates in ("uniform", "Zipf-like")]
    return {
        "3.9 times in the paper's own formulation": exact / stages,
        "and 1.4 to 3.1 times on a GPU": saved,
        "that takes 41.6 ms": exact,
        "10,000 candidates take 10.6 ms": stages,
    }


def scaling() -> Mapping[str, Value]:
    """Return how much faster a GPU reads vectors of 256 numbers, and what a shard costs the driver."""
    core = next(one for one in newest("dense_cpu")["figures"] if one["dimensions"] == 256)["ms_a_million"]
    line = newest("gpu")
    card = next(one for one in line["figures"] if (one["name"], one["slices"]) == ("dense exact", 256))["p50_ms"]
    return {
        "GPUs read vectors hundreds of times as fast as a core": core * line["configuration"]["docs"] / 1e6
        > 200 * card,
        "spends almost a millisecond on each shard": 0.8 < newest("ray_calls")["figures"]["ms_a_shard"] < 1,
    }


def serving() -> Mapping[str, Value]:
    """Return how long the server was under load, and the share of a search in the time of a request."""
    mini, bm25, long = (one for one in lines("serve_load") if one["commit"] == "60f80fd07dac")
    cost = bm25["figures"]["processor_ms"]
    return {
        "for 5 seconds at a time before and after": mini["configuration"]["window_seconds"],
        "memory over ten minutes": long["configuration"]["seconds"] / 60,
        "takes a tenth of the time that HTTP and JSON take": 0.08 < cost["in_process"] / cost["server"] < 0.12,
    }


def words() -> Mapping[str, Value]:
    """Return what the nearest known words add for clean queries."""
    found = newest("typos")["figures"]
    gains = [found[f"{name}:test"]["bm25"]["ndcg@10"] for name in ("squad-dev", "scifact")]
    added = [one["clean, fuzzy"] - one["clean, no fuzzy"] for one in gains]
    return {"which adds 0.003 on squad-dev and 0.001 on scifact": added}


# --- lines


def newest(name: str) -> Line:
    """Return the last line of benchmarks/results/NAME.jsonl."""
    return lines(name)[-1]


def by_commit(name: str, commit: str) -> Line:
    """Return the first line that was measured at a commit, for prose about an older run."""
    return next(one for one in lines(name) if one["commit"] == commit)


def gpu_ms(name: str, gates: str = "uniform", commit: str = "") -> float:
    """Return p50 of a search with 768 slices on the GPU, of the newest run or of that at a commit."""
    line = by_commit("gpu", commit) if commit else newest("gpu")
    place = (name, gates, 768)
    found: float = next(o["p50_ms"] for o in line["figures"] if (o["name"], o["gates"], o["slices"]) == place)
    return found


def gpu_gigabytes() -> float:
    """Return the size of the dense vectors of 768 float16 numbers that were searched on the GPU."""
    return float(newest("gpu")["configuration"]["docs"] * 768 * 2 / 1e9)


def product_rate(level: str) -> float:
    """Return how many documents a second of the products benchmark a level of denslice indexes."""
    line = next(one for one in reversed(lines("products")) if one["product"] == f"denslice, {level}")
    return float(line["configuration"]["documents"] / line["figures"]["first_seconds"])


def against_seismic() -> float:
    """Return how many times as long as Seismic exact search by words takes, with queries of 33 tokens."""
    ours, seismic = (_search(cpu_runs()[MILLION, 768], name, 10)["p50_ms"] for name in ("denslice", "Seismic"))
    return float(ours / seismic)


def encoding_time() -> float:
    """Return how many times as long the second edition takes for a passage as the first."""
    first, second = by_commit("encode_mini", "5ec70ee179af"), newest("encode_mini")
    rates = [line["figures"]["passages_a_second"]["mini"] for line in (first, second)]
    return float(rates[0] / rates[1])


def _contender(line: Line, name: str) -> Line:
    return next(one for one in line["figures"]["contenders"] if one["name"] == name)


def _search(line: Line, name: str, k: int) -> dict[str, Any]:
    return next(one for one in _contender(line, name)["settings"] if one["k"] == k)
