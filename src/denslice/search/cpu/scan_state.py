"""What the arrays hold that a scan of posting lists carries from block to block, by name.

`counts` is how far the scan has come, `price` what reading and rescoring cost, `plan` how much of each list is read.
"""

from __future__ import annotations

import numpy as np

# counts (int64): of the histogram, a bin and the number of documents in it and above
KEPT, THRESHOLD, K_BIN, K_COUNT, MOST_BIN, MOST_COUNT, PROVEN, BLOCK_NUMBER = range(8)
COUNTS = 8
# KEPT: candidates that are kept. THRESHOLD: no candidate has a bound at or below it; at first it may be a guess.
# PROVEN: the threshold that the scores themselves prove. BLOCK_NUMBER: blocks scanned so far.

# price (float64)
PER_UNIT, LEAST, RESCORED, READ = range(4)
PRICES = 4
# PER_UNIT: postings that one unit of score is worth; below 0, every list is read whole.
# LEAST: above 0, postings that add less than this are skipped (pruning). RESCORED, READ: cost since the last plan.

# plan: a tuple of arrays, the last four with an entry for each key of the query
PRICE, SHIFTS, WHOLES, STEPS, ENDS = range(5)
# SHIFTS: how often a list is halved, NOTHING if it is skipped. WHOLES: the most that skipping it can cost a score.
# STEPS: what one step of its values adds. ENDS: where reading stops, 0 for a list that is not read.

NOTHING = 63  # a shift that leaves nothing of a list
BINS = 1 << 12  # of a histogram of scores
SUMS = 1 << 16  # as many rows as a posting can name
CHUNK, PART = np.uint64(128), np.uint64(16)  # scores looked at together, by vector instructions
