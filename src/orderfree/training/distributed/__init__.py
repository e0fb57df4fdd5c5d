"""One training run by several processes: `torchrun -m orderfree train …`."""
