"""What the stack costs over the bare engine, in time."""
