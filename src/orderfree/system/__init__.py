"""What touches the operating system: files, tensors in files, processor, pretrained weights."""
