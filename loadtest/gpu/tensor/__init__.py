"""One GPU against two that share the model."""
