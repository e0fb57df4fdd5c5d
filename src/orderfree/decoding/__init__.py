"""Generation of label sets: rollouts in training, searches in prediction. Both call the decoder's `step`."""
