"""What a user can put right."""

from __future__ import annotations


class Problem(Exception):
    """Of an option, a file or the server. Its message is for the user.

    Args:
        option: as on the command line, "--tokenizer"; "" if it is none's.
    """

    def __init__(self, option: str, message: str) -> None:
        super().__init__(f"{option}: {message}" if option else message)
