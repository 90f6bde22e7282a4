"""A download in the details: its progress, a line for each file, and what to do where it failed."""

from __future__ import annotations

import re

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.window.common.appearance import GAP
from app.window.common.widgets import ElidedLabel, ProgressBar, label, style, wrapped
from app.window.models.downloads import Download, DownloadFile
from app.window.models.model_text import HINTS, pace, sentence, status
from models.size_text import size_words

MOST, MIN_SHARE = 6, 0.002  # files with a line of their own, and how large those are; the others share one line
_ADDRESS = re.compile(r"https?://[^\s,;]+")


class FileLine(QWidget):
    """One file: its name, a bar, how much of it there is."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name, self.bar = ElidedLabel(name, role="detail"), ProgressBar(f"Progress of {name}")
        self.amount = label(role="detail")
        self.bar.setFixedWidth(120)
        self.amount.setFixedWidth(140)
        self.amount.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2 * GAP)
        row.addWidget(self.name, 1)
        row.addWidget(self.bar)
        row.addWidget(self.amount)

    def show_file(self, file: DownloadFile) -> None:
        self.bar.show_share(file.done_bytes / file.size_bytes if file.size_bytes else 1.0, file.whole)
        large = size_words(file.size_bytes)
        self.amount.setText(large if file.whole else f"{size_words(file.done_bytes)} of {large}")


class DownloadView(QFrame):
    """Shows one download. page_asked(QUrl): the address that a failure names is to be opened."""

    page_asked = Signal(QUrl)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, kind="card")
        self.share, self.status, self.pace = label(role="header"), label(), label(role="detail")
        self.bar, self.error, self.page = (
            ProgressBar("Download Progress"),
            wrapped(role="body", tone="error"),
            QPushButton("Open Web Page…"),
        )
        self.others = label(role="detail")
        self.lines: dict[str, FileLine] = {}
        self._files = QVBoxLayout()
        self._address = ""
        self.error.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.page.clicked.connect(lambda: self.page_asked.emit(QUrl(self._address)))
        self._lay_out()

    def show_download(self, download: Download) -> None:
        known = download.total_bytes > 0
        running = download.state == "running" and not download.message
        self.share.setText(f"{download.share:.0%}")
        self.share.setVisible(known)
        done = f"{size_words(download.done_bytes)} of {size_words(download.total_bytes)}"
        self.status.setText(done if running else status(download))
        self.pace.setText(pace(download) if running else (done if known else ""))
        self.bar.show_share(download.share, download.state == "done")
        self.bar.setVisible(known)
        self._show_error(download)
        self._show_files(download)

    def _show_error(self, download: Download) -> None:
        failed = download.state == "failed"
        hint = HINTS.get(download.reason, "") if failed else ""
        self.error.setText(f"{sentence(download.message)}\n{hint}".strip() if failed else "")
        self.error.setVisible(failed)
        found = _ADDRESS.search(download.message) if download.reason == "gated" else None
        self._address = found[0] if found else ""
        self.page.setVisible(failed and bool(found))

    def _show_files(self, download: Download) -> None:
        """Shows the large files, incomplete ones first to be chosen, in the order of their names."""
        files, least_bytes = download.files, MIN_SHARE * download.total_bytes
        large = [name for name, file in files.items() if file.size_bytes >= least_bytes]
        largest = sorted(large, key=lambda name: (files[name].whole, -files[name].size_bytes))[:MOST]
        if set(largest) != set(self.lines):
            self._name_files(sorted(largest))
        for name, line in self.lines.items():
            line.show_file(download.files[name])
        rest = [file for name, file in download.files.items() if name not in self.lines]
        whole = sum(file.whole for file in rest)
        self.others.setText(f"{whole} of {len(rest)} other files downloaded")
        self.others.setVisible(bool(rest))

    def _name_files(self, names: list[str]) -> None:
        for line in self.lines.values():
            self._files.removeWidget(line)
            line.hide()
            line.deleteLater()
        self.lines = {name: FileLine(name) for name in names}
        for line in self.lines.values():
            self._files.addWidget(line)

    def _lay_out(self) -> None:
        head = QGridLayout()
        head.setHorizontalSpacing(2 * GAP)
        head.addWidget(self.share, 0, 0)
        head.addWidget(self.status, 0, 1, Qt.AlignmentFlag.AlignBottom)
        head.addWidget(self.pace, 0, 2, Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignRight)
        head.setColumnStretch(1, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GAP, 12, 2 * GAP, 12)
        column.setSpacing(GAP)
        column.addLayout(head)
        column.addWidget(self.bar)
        column.addWidget(self.error)
        column.addWidget(self.page, 0, Qt.AlignmentFlag.AlignLeft)
        self._files.setSpacing(4)
        column.addLayout(self._files)
        column.addWidget(self.others)
