"""Random requests to a running engine or gateway; --only sends one of them and prints it."""

from __future__ import annotations

import argparse
import asyncio

from loadtest.fuzz.mixes import mix
from loadtest.fuzz.run import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="of an engine or a gateway, such as http://127.0.0.1:8000")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one request")
    parser.add_argument("--model", default="tiny-llada2", help="the name to ask for")
    parser.add_argument("--vocabulary", type=int, default=1024, help="tokens that the model knows")
    arguments = parser.parse_args()
    numbers = range(arguments.requests) if arguments.only is None else [arguments.only]
    if arguments.only is not None:
        print(mix(arguments.seed, arguments.only, arguments.vocabulary, arguments.model))
    asked = run(
        arguments.url, arguments.seed, numbers, model=arguments.model, vocabulary=arguments.vocabulary
    )
    tally = asyncio.run(asked)
    print(tally.table(arguments.url, arguments.seed))
    raise SystemExit(1 if tally.offences else 0)


if __name__ == "__main__":
    main()
