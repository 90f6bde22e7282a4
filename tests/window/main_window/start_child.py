"""One start of the window for `start_bench`: `python -m tests.window.main_window.start_child FOLDER BEGAN_S [real]`.

Says, as JSON, how many seconds after BEGAN_S (of the monotonic clock, which processes share) the window was painted and
its composer had taken a letter, and the processor's seconds until then, which a busy machine leaves alone; then ends.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

BEGAN_S = float(sys.argv[2]) if len(sys.argv) > 2 else time.monotonic()


def main(words: Sequence[str]) -> int:
    from app.window.main_window import start as window
    from tests.window.chat.fake_host import command

    host = () if words[2:] else tuple(command())
    wire = window._connect

    def connect(*parts: object) -> None:
        wire(*parts)  # type: ignore[arg-type]
        watch()

    window._connect = connect
    return window.run(window.WindowOptions(Path(words[0]), host=host))


def watch() -> None:
    """Waits until the window is painted, types a letter, and reports when it is shown."""
    from PySide6.QtCore import QEvent, Qt
    from PySide6.QtGui import QKeyEvent
    from PySide6.QtWidgets import QApplication, QPlainTextEdit, QTextEdit

    from app.window.main_window.application import FirstPaint

    window = next(
        widget for widget in QApplication.topLevelWidgets() if widget.metaObject().className() == "MainWindow"
    )

    def painted() -> None:
        painted_s = time.monotonic() - BEGAN_S
        editor = QApplication.focusWidget()
        assert isinstance(editor, QPlainTextEdit | QTextEdit), editor
        before = editor.toPlainText()
        QApplication.sendEvent(editor, QKeyEvent(QEvent.Type.KeyPress, 0, Qt.KeyboardModifier.NoModifier, "a"))
        editor.repaint()
        assert sorted(editor.toPlainText()) == sorted(before + "a")
        usable_s = time.monotonic() - BEGAN_S
        print(json.dumps({"painted_s": painted_s, "usable_s": usable_s, "cpu_s": time.process_time()}))
        QApplication.quit()

    FirstPaint(window, painted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
