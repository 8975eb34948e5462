"""Run `python -m denslice.train CONFIG`; on several GPUs, `accelerate launch -m denslice.train CONFIG`."""

from denslice.train.train_command import main

main()
