"""Hooks of MkDocs (mkdocs.yml): list decisions, rank them last in the search, and add Mermaid from this host."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_MERMAID = Path(__file__).resolve().parent.parent / "node_modules" / "@mermaid-js" / "tiny" / "dist" / "mermaid.tiny.js"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Returns the configuration with each decision in the navigation."""
    folder = Path(config.docs_dir)
    decisions = [str(page.relative_to(folder)) for page in sorted(folder.glob("decisions/*.md"))]
    config.nav = [{"Decisions": decisions} if "Decisions" in section else section for section in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Returns the site's files with the script that `extra_javascript` names. Material then loads no other Mermaid."""
    files.append(File.generated(config, "assets/mermaid.tiny.js", abs_src_path=str(_MERMAID)))
    return files


def on_page_markdown(_markdown: str, page: Page, **_: object) -> None:
    """Ranks decisions below other pages in the search, since a reader searches for today's behavior first."""
    if page.file.src_uri.startswith("decisions/"):
        page.meta.setdefault("search", {"boost": 0.1})
