"""What a client's connection brings and gets, below any endpoint."""
