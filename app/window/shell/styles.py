"""Style sheets of controls. Of those that macOS draws itself, where it does, only what stands around them is styled."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.window.look import Look, mix
from app.window.shell.theme import NATIVE

FIELDS = "QLineEdit, QSpinBox, QDoubleSpinBox, QPlainTextEdit"


def wear(widget: QWidget, sheet: str) -> None:
    """Style `widget`, unless it is styled so already: Qt takes its time over a sheet that is the same."""
    if widget.styleSheet() != sheet:
        widget.setStyleSheet(sheet)


def controls_style(look: Look) -> str:
    """Of the controls of a form, off macOS: flat, with a line around, ringed where the keyboard is."""
    if NATIVE:
        return ""
    line, size = edge(look), look.px(13)
    focused = ", ".join(f"{kind.strip()}:focus" for kind in FIELDS.split(","))
    return (
        f"{FIELDS} {{ background: {look.background}; color: {look.text}; border: 1px solid {line}; border-radius: 6px;"
        f" padding: 4px 7px; font-size: {size}px; selection-background-color: {look.accent};"
        f" selection-color: {look.on_accent}; }}"
        f"{focused} {{ border: 2px solid {look.accent}; padding: 3px 6px; }}"
        f"QPushButton {{ background: {look.raised}; color: {look.text}; border: 1px solid {line}; border-radius: 6px;"
        f" padding: 4px 12px; font-size: {size}px; }}"
        f"QPushButton:hover {{ background: {look.hover}; }}"
        f"QPushButton:focus {{ border: 2px solid {look.accent}; padding: 3px 11px; }}"
        f"QPushButton:disabled {{ color: {look.faint}; background: transparent; }}"
        f"QCheckBox {{ font-size: {size}px; spacing: 7px; padding: 3px; border: 2px solid transparent;"
        f" border-radius: 6px; }} QCheckBox:focus {{ border-color: {look.accent}; }}"
    )


def choice_style(look: Look) -> str:
    """Of a drop-down, off macOS; its arrow is drawn by the drop-down itself."""
    if NATIVE:
        return ""
    return (
        f"QComboBox {{ background: {look.raised}; color: {look.text}; border: 1px solid {edge(look)};"
        f" border-radius: 6px; padding: 4px 20px 4px 8px; font-size: {look.px(13)}px; }}"
        f"QComboBox:hover {{ background: {look.hover}; }}"
        f"QComboBox:focus {{ border: 2px solid {look.accent}; padding: 3px 19px 3px 7px; }}"
        "QComboBox::drop-down { border: none; width: 22px; } QComboBox::down-arrow { image: none; }"
        f"QComboBox QAbstractItemView {{ background: {look.raised}; color: {look.text}; outline: none;"
        f" border: 1px solid {look.hairline}; selection-background-color: {look.accent};"
        f" selection-color: {look.on_accent}; }}"
    )


def scroll_style(look: Look) -> str:
    """Of scroll bars, off macOS: a thin one without arrows."""
    if NATIVE:
        return ""
    handle, hovered = mix(look.background, look.text, 0.22), mix(look.background, look.text, 0.4)
    return (
        "QScrollBar { background: transparent; border: none; margin: 0; }"
        "QScrollBar:vertical { width: 12px; } QScrollBar:horizontal { height: 12px; }"
        f"QScrollBar::handle {{ background: {handle}; border-radius: 3px; margin: 3px; }}"
        "QScrollBar::handle:vertical { min-height: 36px; } QScrollBar::handle:horizontal { min-width: 36px; }"
        f"QScrollBar::handle:hover {{ background: {hovered}; }}"
        "QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }"
        "QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }"
    )


def flat_style(look: Look, kind: str = "QToolButton") -> str:
    """Of a button that is flat until it is pointed at, and ringed when the keyboard is on it."""
    return (
        f"{kind} {{ border: 2px solid transparent; border-radius: 8px; background: transparent; color: {look.text};"
        f" padding: 0px; }}"
        f"{kind}:hover {{ background: {look.hover}; }} {kind}:pressed {{ background: {look.hairline}; }}"
        f"{kind}:checked {{ background: {look.hover}; }}"
        f"{kind}:focus {{ border-color: {look.accent}; }} {kind}:disabled {{ color: {look.faint}; }}"
    )


def faint_style(look: Look, size: float = 12) -> str:
    """Of text beside the text."""
    return f"color: {look.faint}; font-size: {look.px(size)}px; background: transparent;"


def menu_style(look: Look) -> str:
    """Of menus in the window and tips, off macOS."""
    if NATIVE:
        return ""
    return (
        f"QMenuBar {{ background: {look.sidebar}; color: {look.text}; padding: 1px 4px; }}"
        f"QMenuBar::item {{ padding: 3px 9px; border-radius: 5px; background: transparent; }}"
        f"QMenuBar::item:selected {{ background: {look.hover}; }}"
        f"QMenu {{ background: {look.raised}; color: {look.text}; border: 1px solid {look.hairline}; padding: 5px; }}"
        f"QMenu::item {{ padding: 5px 28px 5px 24px; border-radius: 5px; }}"
        f"QMenu::item:selected {{ background: {look.accent}; color: {look.on_accent}; }}"
        f"QMenu::item:disabled {{ color: {look.faint}; background: transparent; }}"
        f"QMenu::separator {{ height: 1px; background: {look.hairline}; margin: 5px 8px; }}"
        f"QToolTip {{ background: {look.raised}; color: {look.text}; padding: 4px;"
        f" border: 1px solid {look.hairline}; }}"
    )


def edge(look: Look) -> str:
    """Of a line around a control: seen better than a hairline."""
    return mix(look.background, look.text, 0.3)
