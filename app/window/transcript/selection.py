"""A selection that goes through the pages of one message as if they were one text."""

from __future__ import annotations

from app.window.transcript.page import Page


class Selection:
    """pages: by the number of their piece; those that are not in view do not exist."""

    def __init__(self, pages: dict[int, Page]) -> None:
        self._pages = pages

    def __bool__(self) -> bool:
        return any(page.textCursor().hasSelection() for page in self._pages.values())

    @property
    def text(self) -> str:
        """What is selected, without ghosts."""
        chosen = [self._pages[index] for index in sorted(self._pages) if self._pages[index].textCursor().hasSelection()]
        parts = [page.selected_text() + page.joint for page in chosen[:-1]]
        return "".join([*parts, *(page.selected_text() for page in chosen[-1:])])

    def clear(self, but: Page | None = None) -> None:
        """Select nothing; a page that is about to begin a selection is left alone."""
        for page in self._pages.values():
            if page is not but and page.textCursor().hasSelection():
                page.select(0, 0)

    def choose_all(self) -> None:
        for page in self._pages.values():
            page.select(0, page.length)

    def drag(self, origin: Page, y: int) -> None:
        """The mouse, pressed in `origin`, is at height `y` of the pages' parent."""
        begun = origin.textCursor().anchor()
        down = y >= origin.geometry().bottom()
        if not down and y >= origin.y():
            self.clear(but=origin)
            return
        origin.select(begun, origin.length if down else 0)
        for page in self._pages.values():
            if page is origin:
                continue
            behind = page.y() > origin.y()
            reached = y >= page.y() if behind else y <= page.geometry().bottom()
            if behind != down or not reached:
                page.select(0, 0)
                continue
            inside = page.y() <= y <= page.geometry().bottom()
            at = page.character_at(y - page.y()) if inside else page.length if down else 0
            page.select(0 if down else page.length, at)
