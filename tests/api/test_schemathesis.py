"""schemathesis sends the live API valid and invalid requests of its OpenAPI document, with tokens on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.api.live import Live
from tests.jobs import ROOT
from tests.stack.scripted_service import TENANT

#: every check there is, but `unsupported_method`: the host answers 404 and not 405 (docs/decisions)
ALL_BUT = "unsupported_method"

#: refusals that no JSON Schema can express (docs/decisions): `cursor` is opaque, so requests start at the first page;
#: an operator of all tenants must name the tenant of the receipts, of a feed, of a gate, of a bulk, of sources, of
#: webhooks, of a lane (whose mode BURST needs a document) and of usage, which is kept for 31 days; a response that is
#: held for seconds has its own tests; archived jobs are not found by a key
EXCEPTIONS = f"""
hooks = "{ROOT}/tests/api/schemathesis_hooks.py"

[[operations]]
include-path-regex = "^/v1/(jobs|deadletters)$"
parameters = {{ "query.archived" = "false" }}

[[operations]]
include-path = "/v1/receipts"
parameters = {{ "query.tenant_id" = "{TENANT}", "query.archived" = "false" }}

[[operations]]
include-path-regex = "^/v1/(dashboard/)?events$"
parameters = {{ "query.tenant_id" = "{TENANT}", "query.after" = "earliest", "query.wait" = 0 }}

[[operations]]
include-path = "/v1/jobs/{{jobId}}"
parameters = {{ "query.wait" = 0 }}

[[operations]]
include-path-regex = "^/v1/(orchestrate|commands)$"
parameters = {{ "header.Prefer" = "wait=0" }}

[[operations]]
include-path = "/v1/usage"
parameters = {{ "query.tenant" = "fuzzed", "query.since" = "{(datetime.now(UTC) - timedelta(hours=2)).isoformat()}" }}

[[operations]]
include-path = "/v1/routing"
parameters = {{ "query.tenant" = "fuzzed", "query.doc_id" = "doc_1" }}

[[operations]]
include-path-regex = "^/v1/webhooks"
parameters = {{ "query.tenant_id" = "fuzzed" }}

[[operations]]
include-path-regex = "^/v1/(quotas|bulk|sources|audit/(heads|anchors)$)"
parameters = {{ "query.tenant" = "fuzzed" }}
"""


def asked(api: Live, folder: Path, configuration: str, *options: str, **environment: str) -> str:
    """The output of a run that finds nothing; fails with the findings of any other."""
    (folder / "schemathesis.toml").write_text(EXCEPTIONS + configuration)
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", "schemathesis.toml", "run"]
    where = [f"{api.stack.api}/v1/openapi.json", "--url", api.stack.api]
    how = ["--exclude-checks", ALL_BUT, "--continue-on-failure", "--no-color", "--generation-database", "none"]
    # a busy machine takes longer than the usual 10 s for a response
    how += ["--request-timeout", "60"]
    done = subprocess.run(
        [*command, *where, *how, *options],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-12_000:]
    return done.stdout


def tokens(api: Live) -> str:
    """An operator's for the API, and that of an attempt for the callbacks."""
    return f"""
[auth.openapi.bearer]
bearer = "{api.token(roles="orch:all-tenants")}"

[[operations]]
include-tag = "callbacks"
headers = {{ Authorization = "Bearer {api.callback_token()}" }}

[dictionaries]
protocols = {{ values = ["OCR", "ocr_embedding_sis"] }}
schemas = {{ values = ["envelope", "result", "steps-ocr"] }}
jobs = {{ values = {api.jobs()} }}
rejected = {{ values = {api.rejected()} }}

[parameters]
"path.jobId" = {{ dictionary = "jobs", probability = 0.7 }}
"path.rejectedId" = {{ dictionary = "rejected", probability = 0.7 }}
"path.protocolId" = {{ dictionary = "protocols", probability = 0.7 }}
"path.name" = {{ dictionary = "schemas", probability = 0.7 }}
"query.cursor" = ""
"""


def assert_much_was_asked(output: str, least: int) -> None:
    """Checks that the run sent requests, since a run without requests finds nothing."""
    counted = re.search(r"(\d+) generated, (\d+) passed", output)
    assert counted is not None, output[-3000:]
    assert counted[1] == counted[2]
    assert int(counted[2]) > least


@pytest.mark.timeout(600)
def test_it_finds_nothing(api: Live, tmp_path: Path) -> None:
    """Examples, and the edges of every schema: about 40 s, for each route."""
    # left to the long run: random data, of which one seed has the same every time, sequences of calls, more than one
    # value for an edge, the edges of a field of each operation of a resource, the feed's other address, which is the
    # same function, and methods that no route has, whose check is disabled in any case
    configuration = tokens(api) + "[phases.coverage]\nunexpected-methods = []\n"
    phases = ("--phases", "examples,coverage", "--max-examples", "1", "--seed", "1")
    options = (*phases, "--exclude-deprecated", "--exclude-path", "/v1/dashboard/events")
    output = asked(api, tmp_path, configuration, *options, SCHEMATHESIS_ONE_VALUE="1")
    assert_much_was_asked(output, 1200)


@pytest.mark.long
def test_another_tenants_jobs_are_found_by_nobody(api: Live, tmp_path: Path) -> None:
    """The other tenant's token does not reach the jobs of one tenant's calls; an operator's would, and the test notices
    it.

    By a separate tool: `tests/security/test_tenants.py` calls each route of a job as another tenant.
    """
    options = ("--checks", "object_level_authorization", "--phases", "stateful")
    peers = (
        '[parameters]\n"query.cursor" = ""\n[auth.wfc]\npath = "peers.json"\nuser = "one"\npeers = ["one", "other"]\n'
    )
    mine = api.token(tenant=TENANT)
    for other, found in ((api.token(tenant="tenant_b"), False), (api.token(roles="orch:all-tenants"), True)):
        users = {"one": mine, "other": other}
        credentials = [
            {"name": name, "fixedHeaders": [{"name": "Authorization", "value": f"Bearer {token}"}]}
            for name, token in users.items()
        ]
        (tmp_path / "peers.json").write_text(json.dumps({"auth": credentials}))
        if not found:
            few = (*options, "--include-tag", "jobs", "--seed", "2", "--max-examples", "5")
            asked(api, tmp_path, peers, *few, SCHEMATHESIS_TENANT=TENANT)
            continue
        # a job and its read: fewer routes find a fault earlier; the number of examples suffices with any seed
        routes = ("--include-path-regex", r"^/v1/(orchestrate|jobs/\{jobId\})$", "--seed", "6")
        until_found = (*options, *routes, "--max-examples", "150", "--max-failures", "1")
        with pytest.raises(AssertionError, match="Object-level authorization bypass"):
            asked(api, tmp_path, peers, *until_found, SCHEMATHESIS_TENANT=TENANT)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_it_finds_nothing_however_long_it_asks(api: Live, tmp_path: Path) -> None:
    """Sequences of calls and the older names too, and many more examples, other ones each time."""
    output = asked(api, tmp_path, tokens(api), "--max-examples", "100")
    assert_much_was_asked(output, 3000)
