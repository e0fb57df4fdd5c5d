"""From files to a model directory: prepare the data, run the loop, keep the best, never lose anything."""
