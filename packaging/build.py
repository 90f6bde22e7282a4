"""Builds Redline.app and Redline.dmg: `uv run packaging/build.py`. On Linux: the same app, for checks, and no image.

On a Mac the result runs. With --identity and --notary-profile it is signed, notarised and stapled; without, it is
signed ad hoc, and Gatekeeper asks once (the README says how to answer).
"""

import argparse
import sys
from pathlib import Path

from bundling import code_signing, image, wheels
from bundling.assembly import assemble
from bundling.layout import NAME, ROOT
from bundling.tools import BuildError


def main() -> int:
    """Build, and return the exit code."""
    args = _parser().parse_args()
    try:
        _build(args)
    except BuildError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    return 0


def _build(args: argparse.Namespace) -> None:
    if args.lock:
        wheels.lock()
        return
    if not args.identity:
        raise BuildError("--identity is empty: name a certificate of the keychain, or leave the option out")
    if args.notary_profile and args.identity == code_signing.ADHOC:
        raise BuildError("Apple notarises only what is signed: give --identity too")
    args.out.mkdir(parents=True, exist_ok=True)
    layout = assemble(args.out, args.platform, args.identity)
    print(f"{layout.app}")
    if args.app_only or args.platform != "darwin" or sys.platform != "darwin":
        return
    made = args.out / f"{NAME}.dmg"
    image.make(layout, made)
    code_signing.sign_image(made, args.identity)
    if args.notary_profile:
        code_signing.notarise(made, args.notary_profile, args.notary_keychain)
    print(f"{made}: {made.stat().st_size / 1e6:.1f} MB")
    for difference in image.differences(made, layout):
        raise BuildError(f"the image is not what was put into it: {difference}; build again")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="build.py", description="Builds Redline.app and Redline.dmg.")
    add = parser.add_argument
    add("--out", type=Path, default=ROOT / "dist", metavar="DIR", help="where they go (default: dist)")
    add(
        "--identity",
        default=code_signing.ADHOC,
        metavar="NAME",
        help="sign with this certificate: 'Developer ID Application: …'",
    )
    add("--notary-profile", metavar="NAME", help="notarise and staple, with this profile of `xcrun notarytool`")
    add(
        "--notary-keychain",
        type=Path,
        metavar="FILE",
        help="the keychain with that profile (default: the login keychain)",
    )
    add("--app-only", action="store_true", help="no image")
    add("--platform", choices=("darwin", "linux"), default="darwin", help="linux: what the tests start, unsigned")
    add("--lock", action="store_true", help="choose the packages' versions anew, and build nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
