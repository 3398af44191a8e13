"""What the benchmark puts into an engine: random weights, and a clock around each round."""
