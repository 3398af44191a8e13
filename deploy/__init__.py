"""What brings the stack onto a cluster: Helm charts, images, and what writes the generated part of them."""
