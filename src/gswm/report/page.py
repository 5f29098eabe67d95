"""A self-contained HTML page with tables and figures, in a light and a dark theme."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from PIL import Image

from gswm.core.words import printable
from gswm.report.cells import EMPTY, FAILED, HERE, LACKS, UNMEASURED, N, Table
from gswm.report.charts import Charts
from gswm.report.drawing import DARK, LIGHT, Drawing
from gswm.viz.pictures import Picture

STYLE = """
*{box-sizing:border-box}
:root{color-scheme:light dark;LIGHT;--panel:#f6f7f9;--accent:#2563c9;--wrong:#b3261e}
@media(prefers-color-scheme:dark){:root{DARK;--panel:#1c1f26;--accent:#7db0ff;--wrong:#ff8a80}}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{max-width:1060px;margin:0 auto;padding:48px 24px 96px}
h1{font-size:34px;line-height:1.15;margin:0 0 8px;letter-spacing:-.02em}
h2{font-size:21px;margin:56px 0 4px;letter-spacing:-.01em}
h3{font-size:15px;margin:28px 0 -6px;color:var(--faint);font-weight:600}
p{max-width:74ch;margin:6px 0 14px}
.lead{color:var(--faint);font-size:18px}
figure{margin:20px 0 0}
figure svg,figure img{display:block;max-width:100%;height:auto}
figure img{border-radius:6px}
svg text{font-family:inherit}
figcaption{color:var(--faint);font-size:14px;max-width:80ch;margin-top:10px}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:4px 24px}
.wide{overflow-x:auto;margin-top:14px}
table{border-collapse:collapse;font-size:14.5px;font-variant-numeric:tabular-nums;min-width:60%}
th,td{padding:7px 14px 7px 0;text-align:right;white-space:nowrap;
border-bottom:1px solid var(--rule)}
th{font-weight:600;color:var(--faint);font-size:13px;vertical-align:bottom}
th:first-child,td:first-child{text-align:left;font-weight:600}
td.ours{color:var(--accent);font-weight:600}
td.empty{color:var(--faint);font-size:13px;font-style:italic}
td.partial{color:var(--faint);font-weight:400}
td.fails{color:var(--wrong);font-weight:600}
td.words,th.long,td.long{text-align:left}
td.long{white-space:normal;min-width:34ch}
code{font:13px/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;background:var(--panel);
padding:2px 5px;border-radius:4px}
@media(max-width:700px){figure{overflow-x:auto}figure svg{max-width:none}}
footer{margin-top:72px;color:var(--faint);font-size:14px}
"""
LONG = 48
"""Number of characters above which a cell wraps."""


@dataclass(frozen=True)
class Section:
    """A heading, a text, and elements of finished HTML."""

    title: str
    text: str
    shown: tuple[str, ...]


def page(title: str, lead: str, sections: Sequence[Section], foot: str = "") -> str:
    """The whole HTML file."""
    title = printable(title)
    themes = {"LIGHT": LIGHT, "DARK": DARK}
    style = STYLE
    for name, theme in themes.items():
        style = style.replace(name, ";".join(f"--{key}:{value}" for key, value in theme.items()))
    body = "".join(
        f"<section><h2>{escape(s.title)}</h2><p>{inline(s.text)}</p>{''.join(s.shown)}</section>\n"
        for s in sections
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style></head>\n<body><main>\n"
        f'<h1>{escape(title)}</h1><p class="lead">{inline(lead)}</p>\n{body}'
        f"<footer>{inline(foot)}</footer></main></body></html>\n"
    )


def table_html(table: Table) -> str:
    """A table in which our results stand out from the paper's."""
    ours = [name.endswith(HERE) for name in table.head]
    long = [any(is_long(row[i]) for row in table.rows) for i in range(len(table.head))]
    head = "".join(
        f"<th{' class=long' if wraps else ''}>{escape(name)}</th>"
        for name, wraps in zip(table.head, long, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(td(c, mine) for c, mine in zip(row, ours, strict=True)) + "</tr>"
        for row in table.rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def is_long(text: str) -> bool:
    """Whether a cell has text that wraps, unlike commands."""
    return len(text) > LONG and "`" not in text


def td(text: str, ours: bool) -> str:
    """One cell."""
    if text in (EMPTY, UNMEASURED):
        kind = "empty"
    elif N in text and "`" not in text:
        kind = "partial"
    elif is_long(text):
        kind = "long"
    elif ours and text.startswith((FAILED, LACKS)):
        kind = "fails"
    else:
        kind = "ours" if ours else "words" if "`" in text else ""
    return f"<td{f' class={kind}' if kind else ''}>{inline(text)}</td>"


def element(shown: Drawing | Charts | Picture, title: str) -> str:
    """A figure of any kind as an HTML element."""
    if isinstance(shown, Charts):
        from gswm.report import plotting

        return plotting.svg(shown, title)
    return shown.svg(title) if isinstance(shown, Drawing) else image(shown, title)


def movie(name: str) -> str:
    """A video file beside the page, or in a folder beside it."""
    return (
        f'<video src="{escape(name, quote=True)}" controls loop muted playsinline '
        'style="max-width:100%"></video>'
    )


def figure(shown: str, caption: str) -> str:
    """An element with its caption."""
    return f"<figure>{shown}<figcaption>{inline(caption)}</figcaption></figure>"


def image(picture: Picture, title: str) -> str:
    """Pixels as an image element with the PNG embedded."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="PNG", optimize=True)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{escape(title, quote=True)}" src="data:image/png;base64,{data}">'


def inline(text: str) -> str:
    """Convert `code` and *emphasis* to HTML."""
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", safe)
