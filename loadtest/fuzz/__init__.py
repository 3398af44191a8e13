"""Requests of random legal and illegal parameters: none may hang, fail inside the server, or harm another."""
