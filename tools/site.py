"""Hooks of the documentation site, which `make docs` builds with MkDocs.

Beside the pages in docs/, the site has the README as its first page, other pages of the repository,
the notebooks, the help of every command, and the source files that pages link to. Formulas become
MathML. In the end, every link and anchor of every page is checked, and nothing may be loaded from
another host.
"""

import base64
import contextlib
import io
import json
import os
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from gswm.cli import COMMANDS, overview, parse

ROOT = Path(__file__).parents[1]
MOVED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "labels/README.md": "labels.md",
}
"""Files of the repository that are pages of the site, and their places there."""
WIDTH = 88
RECIPE = "two-layer"
"""The recipe whose settings stand for those of all."""
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]*)(#[^)]*)?\)")
"""A link or an image: its text, its target, and an anchor there."""
UNLINKED = re.compile(r"tests/(test_\w+\.py|fuzz)")
"""Files that are named on pages, and are not on the site."""
LANGUAGES = {".py": "python", ".toml": "toml", ".cff": "yaml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for source, place in MOVED.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text()))
    for notebook in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        place = f"tutorials/{notebook.stem}.md"
        text, pictures = as_markdown(notebook)
        files.append(File.generated(config, place, content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"tutorials/{name}", content=content))
    files.append(File.generated(config, "cli.md", content=command_line()))
    for path in linked_sources():
        language = LANGUAGES.get(path.suffix, "text")
        text = f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n"
        text += f"`````{language}\n{(ROOT / path).read_text()}\n`````\n"
        files.append(File.generated(config, f"source/{path}.md", content=text))
    return files


def as_markdown(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """The cells and outputs of a notebook, code in fences, and the pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text")})
            if "image/png" in data:
                name = f"{notebook.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![output of the code above]({name})")
            else:
                parts.append(fenced("".join(data["text/plain"])))
    parts.insert(1, f"*A notebook: [download it]({notebook.name}).*")
    return "\n\n".join(parts) + "\n", pictures


def command_line() -> str:
    """The help of every command."""
    os.environ["COLUMNS"] = str(WIDTH)
    parts = ["# Command line", "Each section is what `gswm COMMAND --help` prints."]
    parts.append(fenced(overview("")))
    for name in COMMANDS:
        parts += [f"## gswm {name}", fenced(help_of(name, []))]
        if name == "train":
            parts += [f"### gswm train {RECIPE}", fenced(help_of(name, [RECIPE]))]
    return "\n\n".join(parts) + "\n"


def help_of(name: str, args: list[str]) -> str:
    """The output of `--help`, without the lines of its boxes."""
    caught = io.StringIO()
    with contextlib.redirect_stdout(caught), contextlib.suppress(SystemExit):
        parse(name, [*args, "--help"])
    lines = [re.sub("[│╭╮╰╯─]", " ", line).rstrip() for line in caught.getvalue().splitlines()]
    return "\n".join(line for line in lines if not re.fullmatch(" *-*", line) or not line)


def fenced(text: str) -> str:
    """A block of plain text."""
    return f"```text\n{text.strip()}\n```"


def linked_sources() -> list[Path]:
    """The files outside docs/ that pages link to, by their places in the repository."""
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / name for name in MOVED)]
    found = {
        target
        for page in pages
        for match in LINK.finditer(page.read_text())
        if (target := target_of(page, match[2])) is not None
    }
    outside = (path for path in found if str(path) not in MOVED and path.parts[0] != "docs")
    return sorted(path for path in outside if not UNLINKED.match(str(path)))


def target_of(page: Path, link: str) -> Path | None:
    """The file of the repository that a link on a page leads to; None if it leads elsewhere."""
    if not link or "://" in link:
        return None
    found = (page.parent / unquote(link)).resolve()
    return found.relative_to(ROOT) if found.exists() and found.is_relative_to(ROOT) else None


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Lead links to files of the repository to their places on the site."""
    place = page.file.src_uri
    source = next((s for s, moved in MOVED.items() if moved == place), f"docs/{place}")

    def moved(match: re.Match[str]) -> str:
        target = target_of(ROOT / source, match[2])
        if target is None:
            return match[0]
        if UNLINKED.match(str(target)):
            return match[1]
        text = title(ROOT / target) if target.name == Path(match[1]).name else match[1]
        to = os.path.relpath(place_of(target, place), Path(place).parent)
        return f"[{text}]({to}{match[3] or ''})"

    return LINK.sub(moved, markdown)


def place_of(target: Path, linked_from: str) -> str:
    """The place on the site of a file of the repository."""
    if target.parts[0] != "docs":
        return MOVED.get(str(target), f"source/{target}.md")
    place = target.relative_to("docs")
    is_page = target.suffix == ".ipynb" and not linked_from.startswith("tutorials/")
    return (place.with_suffix(".md") if is_page else place).as_posix()


def title(file: Path) -> str:
    """The title of a page, in place of the name of its file; the name of other files."""
    found = re.match("# (.*)\n", file.read_text()) if file.suffix == ".md" else None
    return file.name if found is None else found[1]


def on_page_content(html: str, **_: object) -> str:
    """Turn formulas into MathML, which browsers draw without a script."""
    for tag, opening, closing, display in (
        ("div", r"\\\[", r"\\\]", "block"),
        ("span", r"\\\(", r"\\\)", "inline"),
    ):
        pattern = rf'<{tag} class="arithmatex">{opening}(.*?){closing}</{tag}>'
        html = re.sub(
            pattern, lambda m, d=display: convert(unescape(m[1]), display=d), html, flags=re.S
        )
    return html


class Links(HTMLParser):
    """The anchors of a page, the links on it, and the files that it loads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag defines, links to and loads."""
        known = {name: value for name, value in attrs if value is not None}
        self.anchors |= {known[name] for name in ("id", "name") if name in known}
        if tag == "a" and "href" in known:
            self.links.add(known["href"])
        loads = "href" if tag == "link" and known.get("rel") == "stylesheet" else "src"
        if loads in known:
            self.loads.add(known[loads])


def on_post_build(config: MkDocsConfig) -> None:
    """Check all links of the finished site."""
    site = Path(config.site_dir)
    pages = {file: Links(file.read_text()) for file in sorted(site.rglob("*.html"))}
    faults = []
    for file, page in pages.items():
        for link in sorted(page.links | page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    faults.append(f"{file.relative_to(site)} loads {link}")
                continue
            at = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if file.name == "404.html":
                at = site / parts.path.lstrip("/")
            at = at / "index.html" if at.is_dir() else at
            if not at.is_file() or (
                parts.fragment and at in pages and parts.fragment not in pages[at].anchors
            ):
                faults.append(f"{file.relative_to(site)}: no target for {link}")
    if faults:
        raise Abort("\n".join(["The site has broken links:", *faults]))
