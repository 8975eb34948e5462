"""`denslice bench`: search compared with its peers. Every contender is checked first and then timed, all in one run."""
