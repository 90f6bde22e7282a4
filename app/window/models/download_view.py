"""A download in the details of a model: its progress, its files, and what to do if it failed."""

import re

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from app.model_words import joined, pace
from app.window.common.appearance import GAP
from app.window.common.layouts import clear, column, row
from app.window.common.sentence import sentence
from app.window.common.widgets import ElidedLabel, ProgressBar, keep_width, label, style, wrapped
from app.window.models.downloads import Download, DownloadFile, status
from models.size_text import size_words

MAX_LINES, MIN_SHARE = 6, 0.002  # files with a line of their own, and their least share of all bytes
_ADDRESS = re.compile(r"https?://[^\s,;]+")
HINTS = {
    "gated": "Accept the terms on its web page, log in, then resume.",
    "token": "Check the name, or log in with a token that has access.",
    "network": "Resume once the network is back. Nothing is lost.",
    "proxy": "Check the proxy, then resume.",
    "offline": "Downloads are switched off.",
    "disk": "Free some disk space, then resume. Nothing is lost.",
    "server": "The server has a problem. Resume later; nothing is lost.",
    "busy": "Wait a moment, then resume.",
    "damaged": "Resume to download the damaged files again.",
}


class FileLine(QWidget):
    """The progress of one file."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.bar, self.amount = ProgressBar(f"Progress of {name}"), label(role="detail")
        self.bar.setFixedWidth(120)
        keep_width(self.amount, 140)
        self.amount.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row((ElidedLabel(name, role="detail"), 1), self.bar, self.amount, on=self, gap=2 * GAP)

    def show_file(self, file: DownloadFile) -> None:
        """Shows how much of the file is downloaded."""
        self.bar.show_share(file.done_bytes / file.size_bytes if file.size_bytes else 1.0, file.complete)
        size = size_words(file.size_bytes)
        self.amount.setText(size if file.complete else f"{size_words(file.done_bytes)} of {size}")


class DownloadView(QFrame):
    """Shows one download. page_asked(QUrl): the user wants to open the web page that a failure names."""

    page_asked = Signal(QUrl)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, kind="card")
        self.share, self.status, self.pace = label(role="header"), label(), label(role="detail")
        self.bar, self.error = ProgressBar("Download Progress"), wrapped(role="body", tone="error")
        self.page, self.others = QPushButton("Open Web Page…"), label(role="detail")
        self.lines: dict[str, FileLine] = {}
        self._files, self._address = column(gap=4), ""
        self.error.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.page.clicked.connect(lambda: self.page_asked.emit(QUrl(self._address)))
        bottom, left = Qt.AlignmentFlag.AlignBottom, Qt.AlignmentFlag.AlignLeft
        head = row(self.share, (self.status, 1, bottom), (self.pace, 0, bottom), gap=2 * GAP)
        parts = (head, self.bar, self.error, (self.page, 0, left), self._files, self.others)
        column(*parts, on=self, margins=(2 * GAP, 12, 2 * GAP, 12), gap=GAP)

    def show_download(self, download: Download) -> None:
        """Shows the state of a download."""
        known = download.total_bytes > 0
        running = download.state == "running" and not download.message
        self.share.setText(f"{download.share:.0%}")
        self.share.setVisible(known)
        done = f"{size_words(download.done_bytes)} of {size_words(download.total_bytes)}"
        self.status.setText(done if running else status(download))
        self.pace.setText(joined(pace(download.bytes_per_s, download.eta_s)) if running else done if known else "")
        self.bar.show_share(download.share, download.state == "done")
        self.bar.setVisible(known)
        self._show_error(download)
        self._show_files(download)

    def _show_error(self, download: Download) -> None:
        failed = download.state == "failed"
        self.error.setText(f"{sentence(download.message)}\n{HINTS.get(download.reason, '')}".strip() if failed else "")
        self.error.setVisible(failed)
        found = _ADDRESS.search(download.message) if failed and download.reason == "gated" else None
        self._address = found[0] if found else ""
        self.page.setVisible(bool(found))

    def _show_files(self, download: Download) -> None:
        """Shows the largest files, incomplete ones before complete ones, in the order of their names."""
        files = download.files
        large = [name for name, file in files.items() if file.size_bytes >= MIN_SHARE * download.total_bytes]
        largest = sorted(large, key=lambda name: (files[name].complete, -files[name].size_bytes))[:MAX_LINES]
        if set(largest) != set(self.lines):
            clear(self._files)
            self.lines = {name: FileLine(name) for name in sorted(largest)}
            for line in self.lines.values():
                self._files.addWidget(line)
        for name, line in self.lines.items():
            line.show_file(files[name])
        rest = [file for name, file in files.items() if name not in self.lines]
        complete = sum(file.complete for file in rest)
        self.others.setText(f"{complete} of {len(rest)} other files downloaded")
        self.others.setVisible(bool(rest))
