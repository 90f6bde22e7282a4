"""What to send along when something broke: versions, how the engine stands, and the end of what it complained about."""

from __future__ import annotations

from PySide6.QtGui import QGuiApplication

from app.window.controller.engine import Engine


def error_report(engine: Engine) -> str:
    """Plain text. Names models, not the user; holds nothing of any conversation."""
    import platform
    from importlib.metadata import version

    speculating = engine.speculating
    lines = [
        f"Redline {version('redline')}, Python {platform.python_version()}, {platform.platform(terse=True)}",
        f"Qt {version('PySide6-Essentials')}, platform plugin {QGuiApplication.platformName()}",
        f"Engine: {engine.client.phase}, speculation {speculating.state}: {speculating.said}",
        f"Target: {speculating.target or 'none'}, drafter: {speculating.drafter or 'none'}",
        f"Last of what the engine wrote to standard error:\n{engine.client.stderr.strip() or '(nothing)'}",
    ]
    return "\n".join(lines) + "\n"


def copy_report(engine: Engine) -> None:
    """To the clipboard."""
    QGuiApplication.clipboard().setText(error_report(engine))
