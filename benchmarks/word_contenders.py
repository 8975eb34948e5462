"""Times lexical search of denslice beside SINDI, Seismic, kANNolo and impact-index, on the same weights.

    python benchmarks/word_contenders.py WORK --python PYTHON [--documents 62413] [--append]

PYTHON has the packages pyvsag, pyseismic-lsr, kannolo, impact-index and scipy. The rest is as in hybrid_contenders.py,
with which WORK can be shared.
"""

from __future__ import annotations

from contender_runs import arguments, run

NAMES = ("denslice, words", "SINDI", "Seismic", "kANNolo", "impact-index", "impact-index, BMP")

if __name__ == "__main__":
    run(arguments(__doc__, NAMES), "word_contenders")
