"""Kills a writer at random moments, again and again, and counts the kills after which a document was lost or wrong.

    python benchmarks/kills.py [--kills 1000]

tests/kill_writer.py does the work: after each kill it compares the index with every operation that was acknowledged.
Appends a line to results/kills.jsonl; a kill that loses anything ends the run with an error, and there is no line.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import journal

SCRIPT = journal.ROOT / "tests" / "kill_writer.py"


def main() -> None:
    """Kill, and append the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1_000)
    kills = parser.parse_args().kills
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, SCRIPT, "--kills", str(kills), "--steps"], stdout=subprocess.PIPE, text=True, check=True
    )
    print(done.stdout)
    figures = {"kills": kills, "seconds": round(time.perf_counter() - began, 1), "told": done.stdout.strip()}
    print(journal.append("kills", ("numpy",), {"kills": kills}, figures))


if __name__ == "__main__":
    main()
