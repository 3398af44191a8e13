"""Ways to decode a block: what to commit, what to replace, when it is finished. One a file."""
