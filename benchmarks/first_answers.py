"""Times the first answer about a thousand texts, of each product: where it never ran, and again.

    python benchmarks/first_answers.py DATA [--work products-work] [--only NAME]

DATA and the work folder are those of `denslice bench products`, of which this is the first minute: from a folder of
files to an answer, with nothing compiled yet. Appends a line to results/first_answers.jsonl, unless --only is given.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import journal
from denslice.bench.product_bench import FEW, ProductBench, chosen_products
from denslice.bench.product_process import ending_on_sigterm

DOCUMENTS = 100_000  # of the folder whose first texts are taken


def main() -> None:
    """Measure every product, and append the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, default=Path("products-work"))
    parser.add_argument("--only", action="append", default=[])
    given = parser.parse_args()
    bench = ProductBench(given.data, given.work, DOCUMENTS, 0, lambda line: print(line, file=sys.stderr, flush=True))
    figures = {}
    for program in chosen_products(given.only):
        with ending_on_sigterm():
            figures[program.name] = bench.first_answers(program)
        print(program.name, figures[program.name])
    if not given.only:
        print(journal.append("first_answers", ("numpy", "numba"), {"documents": FEW}, figures))


if __name__ == "__main__":
    main()
