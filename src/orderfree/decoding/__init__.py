"""Choosing labels: rollout policies in training, searches in prediction. Both drive the same step."""
