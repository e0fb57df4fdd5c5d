"""Access to the operating system: files, tensors in files, processor, pretrained weights; registries and plugins."""
