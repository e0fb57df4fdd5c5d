"""What scores labels before the networks do: linear classifiers, neighbours, and their combination."""
