"""Training of one model by several processes: `torchrun -m orderfree train …`."""
