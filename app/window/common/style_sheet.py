"""The style sheet of the application: one template for every window, filled with the colours of an appearance.

Widgets choose a style by dynamic properties, set with `widgets.style`:

    role      QLabel: display title header heading lead body detail caption section figure large-figure
              QPlainTextEdit: code prompt
              QLineEdit: search
              QMessageBox: question
              QPushButton: primary secondary link tab pill
              QToolButton: flat quiet page menu round chip send
    tone      QLabel: text faint accent good warning error, over the colour of its role
    kind      QWidget: card pane popover box chip drop banner, the frame around a group of controls
    level     with kind "banner": info warning error
    ground    QWidget: page sidebar clear, the background of a whole part of a window

In the template `$name` is a colour and `@13px` a font size at scale 1. macOS draws its own controls: only `COMMON`
applies there, elsewhere `CONTROLS` as well.
"""

import re
from string import Template

from app.palette import mix
from app.window.common.appearance import Appearance

COMMON = """
*[ground="page"] { background: $background; }
*[ground="sidebar"] { background: $sidebar; }
*[ground="clear"], QScrollArea[ground="clear"] > QWidget > QWidget { background: transparent; }
QScrollArea[ground="page"] > QWidget > QWidget { background: $background; }
*[kind="card"], *[kind="pane"] { background: $raised; border: 1px solid $hairline; border-radius: 12px; }
*[kind="popover"] { background: $raised; border: 1px solid $hairline; border-radius: 8px; }
*[kind="box"] { background: $raised; border: 1px solid $hairline; border-radius: 14px; }
*[kind="box"][focused="true"] { border-color: $accent; }
*[kind="chip"] { background: $background; border: 1px solid $hairline; border-radius: 8px; }
*[kind="drop"] {
    background: $raised; color: $text; border: 2px dashed $accent; border-radius: 14px;
    font-size: @18px; font-weight: 600;
}
*[kind="banner"] { border: 1px solid $hairline; border-radius: 10px; }
*[kind="banner"][level="info"] { background: $info_ground; border-color: $info_edge; }
*[kind="banner"][level="warning"] { background: $warning_ground; border-color: $warning_edge; }
*[kind="banner"][level="error"] { background: $error_ground; border-color: $error_edge; }
QPushButton[kind="card"]:hover { background: $hover; }
QPushButton[kind="card"]:focus { border: 2px solid $accent; }

QLabel { background: transparent; }
QLabel[role="display"] { color: $text; font-size: @30px; font-weight: 700; }
QLabel[role="title"] { color: $text; font-size: @22px; font-weight: 600; }
QLabel[role="header"] { color: $text; font-size: @16px; font-weight: 600; }
QLabel[role="heading"] { color: $text; font-size: @13px; font-weight: 600; }
QLabel[role="lead"] { color: $text; font-size: @15px; }
QLabel[role="body"] { color: $text; font-size: @13px; }
QLabel[role="detail"] { color: $faint; font-size: @12px; }
QLabel[role="caption"] { color: $faint; font-size: @11px; }
QLabel[role="section"] { color: $faint; font-size: @11.5px; font-weight: 700; }
QLabel[role="figure"] { color: $text; font-size: @26px; font-weight: 700; }
QLabel[role="large-figure"] { color: $text; font-size: @44px; font-weight: 700; }
QLabel[tone="text"] { color: $text; }
QLabel[tone="faint"] { color: $faint; }
QLabel[tone="accent"] { color: $accent; }
QLabel[tone="good"] { color: $good; }
QLabel[tone="warning"] { color: $warning; }
QLabel[tone="error"] { color: $error; }

QLineEdit, QSpinBox, QDoubleSpinBox, QComboBox, QCheckBox, QPushButton, Lines { font-size: @13px; }
QPlainTextEdit[role="prompt"] { background: transparent; color: $text; border: none; font-size: @15px; }
QLineEdit[role="search"] {
    background: $background; color: $text; border: 1px solid $hairline; border-radius: 8px; padding: 4px 6px;
}
QLineEdit[role="search"]:focus { border: 2px solid $accent; padding: 3px 5px; }
QPlainTextEdit[role="code"] { font-family: "Menlo", "DejaVu Sans Mono", monospace; font-size: @12px; }
QPushButton[role="primary"] {
    border: 1px solid $accent; border-radius: 7px; background: $accent; color: $on_accent; padding: 4px 12px;
}
QPushButton[role="primary"]:hover { background: $accent_hover; border-color: $accent_hover; }
QPushButton[role="primary"]:focus { border: 2px solid $text; padding: 3px 11px; }
QPushButton[role="primary"]:disabled { background: $hairline; border-color: $hairline; color: $faint; }
QPushButton[role="secondary"] {
    border: 1px solid $hairline; border-radius: 7px; background: $background; color: $text; padding: 4px 12px;
}
QPushButton[role="link"] {
    border: 2px solid transparent; border-radius: 8px; background: transparent; color: $accent; padding: 1px 6px;
}
QPushButton[role="pill"] {
    background: $raised; color: $accent; border: 1px solid $hairline; border-radius: 8px; padding: 3px 8px;
    font-size: @11px;
}
QPushButton[role="tab"] {
    border: none; border-radius: 5px; padding: 3px 8px; color: $faint; font-size: @12px; background: transparent;
}
*[role="flat"], *[role="page"] {
    border: 2px solid transparent; border-radius: 8px; background: transparent; color: $text; font-size: @12px;
}
*[role="flat"] { padding: 0; }
*[role="page"] { padding: 4px 6px; }
QToolButton[role="quiet"], QPushButton[role="quiet"] {
    border: 1px solid transparent; border-radius: 6px; background: transparent; color: $faint; padding: 0 4px;
    font-size: @12px; text-align: left;
}
*[role="menu"] {
    border: 1px solid $hairline; border-radius: 6px; color: $text; background: $raised; padding: 4px 10px;
    font-size: @13px;
}
*[role="chip"] {
    border: 1px solid $hairline; border-radius: 8px; background: $background; color: $text; padding: 0 8px;
    font-size: @12px;
}
*[role="round"] { border: 1px solid $hairline; border-radius: 16px; background: $background; }
*[role="send"] { border: 2px solid transparent; border-radius: 16px; background: $accent; }
*[role="secondary"]:hover, *[role="link"]:hover, *[role="pill"]:hover, *[role="pill"]:focus, *[role="flat"]:hover,
*[role="flat"]:checked, *[role="page"]:hover, *[role="page"]:checked, *[role="quiet"]:hover, *[role="menu"]:hover,
*[role="chip"]:hover, *[role="round"]:hover, *[role="tab"]:checked { background: $hover; }
*[role="flat"][marked="false"]:checked:!hover { background: transparent; }
*[role="link"]:pressed, *[role="flat"]:pressed { background: $hairline; }
*[role="secondary"]:focus, *[role="link"]:focus, *[role="pill"]:hover, *[role="pill"]:focus, *[role="flat"]:focus,
*[role="page"]:focus, *[role="quiet"]:focus, *[role="menu"]:focus, *[role="chip"]:focus, *[role="round"]:focus {
    border-color: $accent;
}
*[role="tab"]:focus { border: 2px solid $accent; padding: 1px 6px; }
*[role="send"]:focus { border-color: $text; }
*[role="quiet"]:hover, *[role="tab"]:hover, *[role="tab"]:checked { color: $text; }
*[role="flat"]:disabled, *[role="link"]:disabled { color: $faint; }
*[role="quiet"]:disabled { color: $hairline; }
*[role="send"]:disabled { background: $hairline; }
*[role="flat"]::menu-indicator, *[role="menu"]::menu-indicator { image: none; }
*[kind="banner"] QPushButton[role="link"] { font-weight: 600; padding: 3px 8px; }
*[kind="banner"][level="warning"] QPushButton[role="link"] { color: $warning; }
*[kind="banner"][level="error"] QPushButton[role="link"] { color: $error; }

Hairline { background: $hairline; border: none; }
QSplitter::handle { background: $hairline; }
QHeaderView { background: $background; }
QHeaderView::section {
    background: $background; color: $faint; border: none; padding: 0 8px; font-size: @11px;
}
QListView[ground="clear"] { border: none; }
"""

CONTROLS = """
QLineEdit, QSpinBox, QDoubleSpinBox, Lines {
    background: $background; color: $text; border: 1px solid $edge; border-radius: 6px; padding: 4px 7px;
    selection-background-color: $accent; selection-color: $on_accent;
}
QLineEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, Lines:focus { border: 2px solid $accent; padding: 3px 6px; }
QPushButton {
    background: $raised; color: $text; border: 1px solid $edge; border-radius: 6px; padding: 4px 12px;
}
QPushButton:hover { background: $hover; }
QPushButton:focus { border: 2px solid $accent; padding: 3px 11px; }
QPushButton:disabled { color: $faint; background: transparent; }
QCheckBox { spacing: 7px; padding: 3px; border: 2px solid transparent; border-radius: 6px; }
QCheckBox:focus { border-color: $accent; }
QComboBox {
    background: $raised; color: $text; border: 1px solid $edge; border-radius: 6px; padding: 4px 20px 4px 8px;
}
QComboBox:hover { background: $hover; }
QComboBox:focus { border: 2px solid $accent; padding: 3px 19px 3px 7px; }
QComboBox::drop-down { border: none; width: 22px; }
QComboBox::down-arrow { image: none; }
QComboBox QAbstractItemView {
    background: $raised; color: $text; outline: none; border: 1px solid $hairline;
    selection-background-color: $accent; selection-color: $on_accent;
}
QListWidget {
    background: $raised; color: $text; border: 1px solid $hairline; border-radius: 6px; padding: 4px;
}
QListWidget::item { padding: 3px 6px; border-radius: 4px; }
QListWidget::item:selected { background: $accent; color: $on_accent; }
QScrollBar { background: transparent; border: none; margin: 0; }
QScrollBar:vertical { width: 12px; }
QScrollBar:horizontal { height: 12px; }
QScrollBar::handle { background: $thumb; border-radius: 3px; margin: 3px; }
QScrollBar::handle:vertical { min-height: 36px; }
QScrollBar::handle:horizontal { min-width: 36px; }
QScrollBar::handle:hover { background: $thumb_hover; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QMenuBar { background: $sidebar; color: $text; padding: 1px 4px; }
QMenuBar::item { padding: 3px 9px; border-radius: 5px; background: transparent; }
QMenuBar::item:selected { background: $hover; }
QMenu { background: $raised; color: $text; border: 1px solid $hairline; padding: 5px; }
QMenu::item { padding: 5px 28px 5px 24px; border-radius: 5px; }
QMenu::item:selected { background: $accent; color: $on_accent; }
QMenu::item:disabled { color: $faint; background: transparent; }
QMenu::separator { height: 1px; background: $hairline; margin: 5px 8px; }
QMessageBox[role="question"] #qt_msgbox_label { font-size: @16px; font-weight: 600; }
QMessageBox[role="question"] #qt_msgbox_informativelabel { font-size: @13px; min-width: 400px; }
QToolTip { background: $raised; color: $text; padding: 4px; border: 1px solid $hairline; }
"""

_SIZE = re.compile(r"@(\d+(?:\.\d+)?)px")


def style_sheet(appearance: Appearance, native: bool) -> str:
    """Returns the application's style sheet. native: whether the system draws its own controls, as macOS does."""
    template = COMMON if native else CONTROLS + COMMON  # a role comes after the control that it changes
    sized = _SIZE.sub(lambda found: f"{appearance.px(float(found[1]))}px", template)
    return Template(sized).substitute(_colours(appearance))


def _colours(look: Appearance) -> dict[str, object]:
    """Returns the colours of the appearance by name, and those that are mixed from them."""
    colours = vars(look) | {
        "edge": look.edge,
        "accent_hover": mix(look.accent, look.text, 0.12),
        "thumb": mix(look.background, look.text, 0.22),
        "thumb_hover": mix(look.background, look.text, 0.4),
    }
    for level, colour in (("info", look.accent), ("warning", look.warning), ("error", look.error)):
        colours[f"{level}_ground"] = mix(look.background, colour, 0.09)
        colours[f"{level}_edge"] = mix(look.background, colour, 0.35)
    return colours
