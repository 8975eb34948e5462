"""Names for the arrays that a scan of posting lists carries from block to block.

`counts` holds the progress of the scan, `price` the cost of reading and rescoring, `plan` how much of a list is read.
"""

from __future__ import annotations

import numpy as np

# counts (int64). K_BIN, K_COUNT and MOST_BIN, MOST_COUNT: a bin of the histogram, and the documents in it and above.
KEPT, THRESHOLD, K_BIN, K_COUNT, MOST_BIN, MOST_COUNT, PROVEN, BLOCK_NUMBER, POSTINGS_READ = range(9)
COUNTS = 9
# KEPT: the number of candidates. THRESHOLD: every candidate's bound is above it; at first it may be a guess.
# PROVEN: the threshold that the scores prove. BLOCK_NUMBER: the number of blocks scanned so far.
# POSTINGS_READ: how many of their postings were read.

# price (float64)
PER_UNIT, PRUNE_BELOW, RESCORED, READ = range(4)
PRICES = 4
# PER_UNIT: how many postings one unit of score is worth; below 0, every list is read whole.
# PRUNE_BELOW: above 0, postings that add less than this are skipped. RESCORED, READ: the cost since the last plan.

# plan: a tuple of arrays, the last four with an entry for each key of the query
PRICE, SHIFTS, WHOLES, STEPS, ENDS = range(5)
# SHIFTS: how often a list is halved, or LIST_SKIPPED. WHOLES: the most that skipping the list can cost a score.
# STEPS: how much one step of its values adds. ENDS: where reading stops, 0 for a list that is not read.

LIST_SKIPPED = 63  # a shift that leaves nothing of a list
HISTOGRAM_BINS = 1 << 12
SUMS = 1 << 16  # the number of rows that a posting can name
CHUNK_SUMS, PART_SUMS = np.uint64(128), np.uint64(16)  # sums that vector instructions compare together
