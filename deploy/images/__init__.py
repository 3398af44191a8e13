"""What the container images are built from."""
