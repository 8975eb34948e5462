"""`python -m denslice`, the same as `denslice`."""

from denslice.cli import main

main()
