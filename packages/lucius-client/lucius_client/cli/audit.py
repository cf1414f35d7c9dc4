"""`lucius audit verify` and `lucius audit export`: bundles of histories."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from lucius_client import DEFAULT_URL, LuciusError
from lucius_client.cli import rendering
from lucius_client.cli.audit_export import Window, export
from lucius_client.cli.commands import add
from lucius_client.cli.exits import UsageError, cli_error
from lucius_client.cli.options import LoginTenant
from lucius_client.cli.rendering import OutputFormat
from lucius_client.cli.session import ApiOption, Session, TokenOption

_TIME = "2026-01-27T10:00:00Z, 90m, 2h, 3d"

Key = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="KEY", help="File with a public key (PEM), or key id, that you trust; repeatable."),
]
Head = Annotated[
    str | None,
    typer.Option(
        metavar="HASH",
        help="Hash that the job's last event must have, from a separate record. For a tenant's bundle, also name the "
        "job.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write, in the format tar.gz.")]
WithoutHeads = Annotated[
    bool,
    typer.Option("--without-heads", help="Export the jobs created in the window, without signed heads."),
]
WithContent = Annotated[
    bool,
    typer.Option("--with-content", help="Include payloads, error texts of services, and query strings of references."),
]

audit_app = typer.Typer(help="Export and verify bundles of histories for auditors.", no_args_is_help=True)
#: commands under the older name of `audit export`
orch_app = typer.Typer(help="Current name: lucius audit export.", no_args_is_help=True)


@audit_app.callback()
@orch_app.callback()
def audit() -> None:
    """Export and verify bundles of histories."""


def verify_file(
    bundle: Annotated[str, typer.Argument(metavar="FILE", help="Bundle of a tenant or of one job. `-` is stdin.")],
    job: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="At levels 2 and 3, verify only the events of this job. The other checks cover the whole bundle.",
        ),
    ] = None,
    key: Key = None,
    head: Head = None,
    json_: Json = False,
) -> None:
    """Verify a bundle without the API, at four levels.

    Levels:
    1 bytes: the files match their digests, signatures and signed heads
    2 chain: the events have no gap, and their hashes and totals match
    3 possible: each event follows from the rules of the app
    4 complete: the bundle has every signed job, and every job is signed

    Exit codes:
    0: verified at the levels that the report names
    2: broken or unreadable
    3: signed by a key that you have not named, or not signed although you
       named a key
    """
    try:
        from lucius_verify import verify
    except ImportError as missing:
        raise UsageError(f"package lucius-verify not found ({missing}); install packages/lucius-verify") from missing
    try:
        if bundle == "-":
            with tempfile.NamedTemporaryFile(prefix="lucius-") as spooled:
                while chunk := sys.stdin.buffer.read(1 << 20):
                    spooled.write(chunk)
                spooled.flush()
                report = verify(Path(spooled.name), job=job, keys=key or (), head=head)
        else:
            report = verify(Path(bundle), job=job, keys=key or (), head=head)
    except ValueError as wrong:
        raise UsageError(str(wrong)) from wrong
    if json_:
        rendering.write_json(report.to_json())
    else:
        rendering.write(report.to_text())
    raise typer.Exit(report.verdict)


def verify_job(
    bundle: Annotated[str, typer.Option(metavar="BUNDLE", help="Bundle of a tenant or of one job.")],
    job_id: Annotated[str, typer.Option("--job-id", metavar="ID", help="Id of the job.")],
    key: Key = None,
    head: Head = None,
    json_: Json = False,
) -> None:
    """Verify one job of a bundle without the API.

    The command is equivalent to `lucius audit verify BUNDLE --job ID`.
    """
    verify_file(bundle, job_id, key, head, json_)


def export_bundle(
    output: Output,
    tenant: LoginTenant = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help=f"Start of the window, as a timestamp or an age: {_TIME}. Default: the first head or job.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End of the window, as a timestamp or an age. Default: the latest time with complete heads, else now.",
        ),
    ] = None,
    with_content: WithContent = False,
    without_heads: WithoutHeads = False,
    api: ApiOption = DEFAULT_URL,
    token: TokenOption = None,
) -> None:
    """Write a tenant's histories of a window as one bundle.

    With signed heads, the bundle has the jobs with an event on a UTC day of the
    window. Without signed heads, the bundle has the jobs created in the window.

    If an export is interrupted, run the same command again to continue.

    The exit code is 1 if the API cannot read some jobs. The bundle lacks these
    jobs, and the manifest has their ids.
    """
    session = Session(api, token or None, OutputFormat.TABLE)
    try:
        window = Window(session.tenant(tenant), since, until, without_heads)
        export(session, window, output, with_content=with_content)
    except LuciusError as error:
        raise cli_error(error, api) from error


add(
    audit_app,
    "verify",
    verify_file,
    "lucius audit verify bundle.tar.gz --key lucius.pem",
    'lucius audit verify bundle.json --head "$HEAD"',
)
add(
    audit_app,
    "export",
    export_bundle,
    "lucius audit export --tenant acme --since 30d --output acme.tar.gz",
    "lucius audit export --tenant acme --since 1d --output acme.tar.gz --with-content",
)
add(orch_app, "export", export_bundle, "lucius orch export --tenant acme --since 30d --output acme.tar.gz")
