"""Signs with Apple's `codesign` on a Mac; elsewhere ad hoc with apple-platform-rs, which makes the same signatures.

From the inside out: every library by itself, then the app, whose signature seals all other files. Signed with an
identity, everything asks for the hardened runtime, as notarisation requires. Signed ad hoc, nothing does: libraries
signed by nobody could not be loaded.
"""

import sys
from pathlib import Path

import apple_platform

from bundling.layout import IDENTIFIER, Layout
from bundling.machos import is_macho
from bundling.tools import BuildError, run

ADHOC = "-"


def sign(layout: Layout, identity: str = ADHOC) -> None:
    """identity: a certificate's name in the keychain, "Developer ID Application: ...". Raises BuildError."""
    if sys.platform == "darwin":
        _codesign(layout, _libraries(layout), identity)
    elif identity == ADHOC:
        sign_elsewhere(layout)
    else:
        raise BuildError(
            "only a Mac can sign with an identity of its keychain: leave --identity out, or build on a Mac"
        )


def sign_image(image: Path, identity: str) -> None:
    """Signs an image with an identity, as the app is; without one it is not signed, as that would be worth nothing."""
    if identity != ADHOC:
        run("/usr/bin/codesign", "--force", "--timestamp", "--sign", identity, image)


def notarise(image: Path, profile: str, keychain: Path | None = None) -> None:
    """Submits the image to Apple's notary service and staples the ticket to it.

    profile: the name that `xcrun notarytool store-credentials` was given; keychain: the file that holds it, the login
    keychain if None. Raises BuildError.
    """
    where = ["--keychain", keychain] if keychain is not None else []
    answer = run("xcrun", "notarytool", "submit", image, "--keychain-profile", profile, *where, "--wait")
    if "status: Accepted" not in answer:
        raise BuildError(f"Apple did not accept the image: {' '.join(answer.split())[-400:]}")
    run("xcrun", "stapler", "staple", image)
    run("xcrun", "stapler", "validate", image)


def _codesign(layout: Layout, libraries: list[Path], identity: str) -> None:
    command = ["/usr/bin/codesign", "--force", "--sign", identity]
    if identity == ADHOC:
        command += ["--timestamp=none"]
    else:
        command += ["--timestamp", "--options", "runtime"]
    frameworks = sorted(layout.site_packages.rglob("*.framework"))
    alone = [path for path in libraries if not any(framework in path.parents for framework in frameworks)]
    for start in range(0, len(alone), 50):
        run(*command, *alone[start : start + 50])
    for framework in frameworks:
        run(*command, framework)
    run(*command, layout.app)
    run("/usr/bin/codesign", "--verify", "--strict", "--verbose=2", layout.app)


def sign_elsewhere(layout: Layout) -> None:
    """Ad hoc, without Apple's tools. Raises BuildError."""
    try:
        for path in _libraries(layout):
            signed = apple_platform.sign_macho_bytes(path.read_bytes(), binary_identifier=path.name.split(".")[0])
            path.write_bytes(signed)
        apple_platform.sign(str(layout.app), binary_identifier=IDENTIFIER, shallow=True)
    except apple_platform.ApplePlatformError as error:
        raise BuildError(f"the app could not be signed: {error}") from error


def _libraries(layout: Layout) -> list[Path]:
    """All Mach-O files but the launcher."""
    return [path for path in layout.files() if path != layout.launcher and is_macho(path)]
