"""The versions of Python packages, for reports and for what may only be used by the version that wrote it."""

UNKNOWN = "unknown"


def version_of(package: str) -> str:
    """Returns the version of a package. UNKNOWN if it is not installed, as is Redline itself where it runs from a
    folder of its source."""
    from importlib.metadata import PackageNotFoundError, version  # takes time that no start should need

    try:
        return version(package)
    except PackageNotFoundError:
        return UNKNOWN
