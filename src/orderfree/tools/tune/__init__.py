"""Hyper-parameter search: the space, the trials, and the study file."""
