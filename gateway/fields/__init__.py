"""What the body of a request may say, and what it comes to; each endpoint takes what it needs."""
