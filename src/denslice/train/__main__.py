"""`python -m denslice.train CONFIG`, for `accelerate launch -m denslice.train CONFIG` on several GPUs."""

from denslice.train.train_command import main

main()
