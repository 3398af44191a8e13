"""Random requests to a running engine or gateway; --only sends one of them and prints it."""

from __future__ import annotations

import argparse
import asyncio

from loadtest.fuzz.mixes import Server, mix
from loadtest.fuzz.run import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["engine", "gateway"])
    parser.add_argument("url", help="such as http://127.0.0.1:8000")
    parser.add_argument("--model", default="tiny-llada2", help="the name to ask for")
    parser.add_argument("--vocabulary", type=int, default=1000, help="tokens that the model knows")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one request")
    arguments = parser.parse_args()
    server = Server(arguments.url, arguments.model, arguments.vocabulary, arguments.kind == "gateway")
    numbers = range(arguments.requests)
    if arguments.only is not None:
        numbers = range(arguments.only, arguments.only + 1)
        print(mix(arguments.seed, arguments.only, server))
    tally = asyncio.run(run(server, arguments.seed, numbers))
    print(tally.table(server, arguments.seed))
    raise SystemExit(1 if tally.offences else 0)


if __name__ == "__main__":
    main()
