"""`python -m scripts.ledger_exports list|take|restore`: exports and restores the tables, on request of an operator.

The command works on the account of the app's settings (`LUCIUS_TABLE_ENDPOINT`, `LUCIUS_BLOB_ENDPOINT` and the names of
the tables), as the identity that is signed in. A restore requires a stopped app and empty tables.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from shared import settings as settings_module
from shared.adapters.tables.export_format import read_manifest
from shared.adapters.tables.exports import TablesExports
from shared.adapters.tables.restore import Restore
from shared.errors import DataLost, ExportUnfit, LuciusError
from shared.settings import Settings
from shared.store_wiring import export_files, table_names, tables_account

#: settings of the app that no command uses, though the app cannot start without them
_UNUSED = {
    "LUCIUS_SERVICEBUS_CONNECTION__fullyQualifiedNamespace": "unused.invalid",
    "LUCIUS_AUTH_MODE": "jwt",
    "LUCIUS_AUTH_ISSUER": "https://unused.invalid",
    "LUCIUS_AUTH_AUDIENCE": "unused",
    "LUCIUS_AUTH_JWKS_URL": "https://unused.invalid",
}


def load(environ: Mapping[str, str]) -> Settings:
    """Returns the settings of the stores. Other settings can be unset. Raises SettingsError."""
    return settings_module.load({**environ, **_UNUSED})


async def run(command: str, name: str | None) -> list[str]:
    """Runs one command. Returns the lines to print. Raises LuciusError."""
    settings = load(os.environ)
    account, files, names = tables_account(settings), export_files(settings), table_names(settings)
    try:
        if command == "take":
            exports, now = TablesExports(account, names, files, account.url), datetime.now(UTC)
            await exports.begin(now)
            taken = await exports.go_on(now, lambda: False)
            assert taken is not None
            return [f"{taken.name} {taken.rows} rows"]
        if command == "restore":
            assert name is not None
            opened = {role: await account.open_unchecked(table) for role, table in names.items()}
            restored = await Restore(opened, files).run(name)
            return [f"{restored.name} {restored.rows} rows restored; start the app"]
        lines = []
        for folder in await files.folders():
            try:
                manifest = await read_manifest(files, folder)
                lines.append(f"{folder} {'complete' if manifest.complete else 'not complete'} {manifest.rows} rows")
            except (DataLost, ExportUnfit) as unfit:
                lines.append(f"{folder} {unfit}")
        return lines or ["there are no exports"]
    finally:
        await account.close()
        await files.close()


def main(words: list[str] | None = None) -> int:
    """Runs the command of the arguments. Returns 1 if the command failed, with the remedy on stderr, else 0."""
    parser = argparse.ArgumentParser(prog="python -m scripts.ledger_exports", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="list the exports")
    commands.add_parser("take", help="export the tables now")
    restore = commands.add_parser("restore", help="restore the tables from an export")
    restore.add_argument("name", help="name of the export, as list shows it")
    arguments = parser.parse_args(words)
    try:
        print("\n".join(asyncio.run(run(arguments.command, getattr(arguments, "name", None)))))
    except (LuciusError, ValueError) as error:
        print(f"ledger_exports: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
