"""Attacks on Redline, each of them a measurement: `python -m tests.attack store [--seed 1] [--short]`.

A module of this folder is an attack; its `attack(seed, short)` prints counts and returns what did not hold. Some take
`count` as well, the number of cases.
"""

import argparse
import importlib
import pkgutil

import tests.attack


def main() -> int:
    names = sorted(info.name for info in pkgutil.iter_modules(tests.attack.__path__) if info.name != "__main__")
    parser = argparse.ArgumentParser(
        prog="python -m tests.attack", description="Attacks Redline and counts what holds."
    )
    parser.add_argument("name", choices=names)
    parser.add_argument("--seed", type=int, default=1, help="of everything that is random")
    parser.add_argument("--short", action="store_true", help="a minute's sample")
    parser.add_argument("--count", type=int, help="of cases, for an attack that has any number of them")
    args = parser.parse_args()
    more = {} if args.count is None else {"count": args.count}
    print(f"{args.name}, seed {args.seed}")
    failures: list[str] = importlib.import_module(f"tests.attack.{args.name}").attack(args.seed, args.short, **more)
    print("\n".join(failures[:50]) or "everything held")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
