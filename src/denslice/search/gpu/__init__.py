"""Search on GPUs (extra `gpu`): the CPU's results, from the same postings, at the speed of the card's memory."""
