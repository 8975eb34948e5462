"""Search on GPUs (extra `gpu`), with the results of the CPU, from the same posting lists."""
