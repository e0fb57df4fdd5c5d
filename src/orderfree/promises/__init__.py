"""Promises about predictions on new data, with the number of examples they rest on."""
