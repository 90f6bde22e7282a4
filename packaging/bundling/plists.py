"""Info.plist: what the system knows of the app before it runs, and the check that nothing of it is missing."""

import plistlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bundling.layout import IDENTIFIER, MINIMUM_SYSTEM, NAME, dotted

COPYRIGHT = "Apache License 2.0"


def info(version: str) -> dict[str, Any]:
    """The whole of Info.plist. version: Redline's, "0.1.0"."""
    return {
        "CFBundleDevelopmentRegion": "en",
        "CFBundleDisplayName": NAME,
        "CFBundleDocumentTypes": _documents(),
        "CFBundleExecutable": NAME,
        "CFBundleGetInfoString": f"{NAME} {version}",
        "CFBundleIconFile": f"{NAME}.icns",
        "CFBundleIdentifier": IDENTIFIER,
        "CFBundleInfoDictionaryVersion": "6.0",
        "CFBundleName": NAME,
        "CFBundlePackageType": "APPL",
        "CFBundleShortVersionString": version,
        "CFBundleSupportedPlatforms": ["MacOSX"],
        "CFBundleVersion": version,
        "LSApplicationCategoryType": "public.app-category.productivity",
        "LSArchitecturePriority": ["arm64"],
        "LSMinimumSystemVersion": dotted(MINIMUM_SYSTEM),
        "LSRequiresNativeExecution": True,
        "NSHighResolutionCapable": True,
        "NSHumanReadableCopyright": COPYRIGHT,
        "NSPrincipalClass": "NSApplication",
        "NSRequiresAquaSystemAppearance": False,  # False is: may be dark
        "NSSupportsAutomaticTermination": False,  # a reply may be running in another process
        "NSSupportsSuddenTermination": False,
    }


def written(properties: dict[str, Any]) -> bytes:
    """As a file, the same for the same properties."""
    return plistlib.dumps(properties, sort_keys=True)


def faults(path: Path) -> Iterator[str]:
    """What is missing or wrong in an Info.plist, one sentence each."""
    try:
        found = plistlib.loads(path.read_bytes())
    except FileNotFoundError:
        yield "is missing"
        return
    except (plistlib.InvalidFileException, ValueError) as error:
        yield f"is no property list ({error})"
        return
    for key, wanted in info(found.get("CFBundleShortVersionString") or "a version").items():
        if found.get(key) != wanted:
            yield f"has {found[key]!r} for {key}, not {wanted!r}" if key in found else f"lacks {key}"
    yield from _icons(path, found)


def _icons(path: Path, found: dict[str, Any]) -> Iterator[str]:
    """Every icon that is named is there."""
    documents = [kind.get("CFBundleTypeIconFile") for kind in found.get("CFBundleDocumentTypes", ())]
    for icon in sorted({name for name in (found.get("CFBundleIconFile"), *documents) if name}):
        if not (path.parent / "Resources" / icon).is_file():
            yield f"names the icon {icon}, which is not in Resources"


def _documents() -> list[dict[str, Any]]:
    """Exported conversations and races are JSON: Redline can open it, and takes over nobody's files."""
    return [
        {
            "CFBundleTypeIconFile": f"{NAME}.icns",
            "CFBundleTypeName": "Redline Export",
            "CFBundleTypeRole": "Viewer",
            "LSHandlerRank": "Alternate",
            "LSItemContentTypes": ["public.json"],
        }
    ]
