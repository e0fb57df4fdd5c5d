"""Hyper-parameter search: what may vary, and the trials."""
