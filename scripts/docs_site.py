"""A hook of MkDocs (mkdocs.yml): adds Mermaid to the site, so that a page asks no other host for it."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_MERMAID = Path(__file__).resolve().parent.parent / "node_modules" / "@mermaid-js" / "tiny" / "dist" / "mermaid.tiny.js"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of the site, with the script that `extra_javascript` names; Material then loads no other Mermaid."""
    files.append(File.generated(config, "assets/mermaid.tiny.js", abs_src_path=str(_MERMAID)))
    return files
