"""The extension that SGLang loads into each of its processes: hooks, one job a file."""
