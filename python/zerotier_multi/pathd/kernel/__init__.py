"""What shall stand in the kernel, what stands there, and the ordered actions between the two."""
