"""The commonest changes, made on one copy of the checkout with the files that CONTRIBUTING.md names.

All tests use one copy: generating everything and starting the tests takes 10 CPU seconds.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Copy:
    """A copy of the checkout, to change."""

    path: Path

    def run(self, *arguments: str) -> str:
        """Returns the output of `python ARGUMENTS` in it; fails with the output if the command fails."""
        packages = [str(package) for package in (self.path / "packages").iterdir()]
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(self.path), *packages]), "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def generate(self) -> None:
        """`make generate`, but for the plots of docs/explanation/scale."""
        self.run("-m", "scripts.generate")

    def test(self, *tests: str) -> None:
        """The tests that the developer of the change would run."""
        self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--assert=plain", *tests)

    def text(self, name: str) -> str:
        return (self.path / name).read_text(encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        """Replaces the first `old` of a file."""
        text = self.text(name)
        assert old in text, f"{name} does not hold {old!r}"
        (self.path / name).write_text(text.replace(old, new, 1), encoding="utf-8")


def copied(path: Path) -> Copy:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    for git in (["init", "-q"], ["add", "--all"]):
        subprocess.run(["git", *git], cwd=path, check=True)
    (path / "node_modules").symlink_to(ROOT / "node_modules")  # `generate` copies the dashboard's libraries
    (path / ".git" / "info" / "exclude").write_text("node_modules\n")
    return Copy(path)


_READ_PROTOCOL = """
from pathlib import Path
from shared.adapters.protocol_files import load_registry
from shared.settings import load

settings = load({"LUCIUS_SERVICEBUS_CONNECTION": "x", "LUCIUS_STORAGE_BACKEND": "memory", "LUCIUS_AUTH_MODE": "none"})
registry = load_registry(settings.protocols_path, settings.topology_path)
protocol = registry.find("TRANSLATION")
assert protocol is not None
assert protocol.payload_errors({"translation": {"target": 5}})
assert not protocol.payload_errors({"translation": {"target": "de"}})
print(protocol.definition.steps[0].service)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A copy with all changes, after `make generate`."""
    changed = copied(tmp_path_factory.mktemp("changed"))
    for change in (
        add_step_type,
        add_reason,
        add_setting,
        add_metric,
        add_route,
        add_refusal,
        add_filter,
        add_event_type,
        add_quota_kind,
    ):
        change(changed)
    changed.generate()
    return changed


def add_step_type(copy: Copy) -> None:
    definition = {
        "protocol_id": "translation",
        "version": 1,
        "request_type": "TRANSLATION",
        "steps": [
            {
                "step_id": "translation",
                "step_type": "TRANSLATION",
                "service": "translation",
                "payload_schema": "steps/translation.schema.json",
            }
        ],
    }
    schema = {
        "title": "Payload of the TRANSLATION step",
        "type": "object",
        "properties": {"target": {"type": "string"}},
    }
    (copy.path / "protocols" / "translation.json").write_text(json.dumps(definition), encoding="utf-8")
    (copy.path / "protocols" / "steps" / "translation.schema.json").write_text(json.dumps(schema), encoding="utf-8")
    topology = json.loads(copy.text("infra/bicep/topology.json"))
    topology["services"].append({"name": "translation", "stepType": "TRANSLATION"})
    (copy.path / "infra/bicep/topology.json").write_text(json.dumps(topology, indent=2), encoding="utf-8")


def add_reason(copy: Copy) -> None:
    row = '    NO_BUDGET = ("NO_BUDGET", "the tenant\'s budget is spent", "raise the budget")\n'
    copy.edit("shared/core/jobs/reasons.py", "    ATTEMPTS_EXHAUSTED = (\n", f"{row}    ATTEMPTS_EXHAUSTED = (\n")


def add_setting(copy: Copy) -> None:
    declared = """    page_size: int = setting(
        "LUCIUS_PAGE_SIZE", form.whole_number, "50", help="Lines of a page that names no limit", tuning=True
    )
"""
    copy.edit("shared/settings.py", "    events: str", f"{declared}    events: str")


def add_metric(copy: Copy) -> None:
    row = '    Metric("page_total", _C, "{page}", ("jobType",), "Pages read"),\n'
    copy.edit("shared/telemetry/metric_table.py", "    Metric(\n", f"{row}    Metric(\n")


_HANDLER = """

@Route(
    function="services_list",
    method="GET",
    path="v1/services",
    scope=Scope.READ,
    tag="protocols",
    summary="List the services",
    responses={200: "application/json"},
)
async def _services_list(request: Request) -> func.HttpResponse:
    return respond(request.http, {"services": []})
"""


def add_route(copy: Copy) -> None:
    module = "triggers/protocols_http.py"
    (copy.path / module).write_text(copy.text(module) + _HANDLER, encoding="utf-8")


_REFUSAL = '''

class JobSealed(Refused, status=410):
    """The job is sealed and cannot be read."""

    text = "the job is sealed; ask an operator"
'''


def add_refusal(copy: Copy) -> None:
    refusals, routes = "shared/refusals.py", "triggers/jobs_http.py"
    (copy.path / refusals).write_text(copy.text(refusals) + _REFUSAL, encoding="utf-8")
    copy.edit(routes, "import JobNotFound\n", "import JobNotFound, JobSealed\n")
    copy.edit(routes, "READ_PROBLEMS = (JobNotFound,", "READ_PROBLEMS = (JobNotFound, JobSealed,")


def add_filter(copy: Copy) -> None:
    filters = "shared/core/filters.py"
    field = '    team: str | None = _parameter(TEXT, "Jobs of this team.")\n'
    copy.edit(filters, "    request_type: str | None", f"{field}    request_type: str | None")
    condition = '            and (self.team is None or labels.get("team") == self.team)\n'
    copy.edit(filters, "            and (self.label is None", f"{condition}            and (self.label is None")


def add_event_type(copy: Copy) -> None:
    types, log = "shared/core/events/event_types.py", "shared/core/webhooks/hook_log.py"
    member = '    WEBHOOK_ROTATED = ("webhook.rotated", "A webhook got a new secret.")\n'
    row = '    _P.WEBHOOK_ROTATED: (HookPayload, {"status": "ENABLED", "reason": "CALLER"}),\n'
    copy.edit(types, "    WEBHOOK_DEAD = (", f"{member}    WEBHOOK_DEAD = (")
    copy.edit(types, "    _P.WEBHOOK_DEAD: (", f"{row}    _P.WEBHOOK_DEAD: (")
    copy.edit(log, "HookAct.ROTATED: None", "HookAct.ROTATED: PublicType.WEBHOOK_ROTATED")


def add_quota_kind(copy: Copy) -> None:
    rules, requests, responses = "shared/core/gates/rules.py", "shared/api/quota_changes.py", "shared/api/quota.py"
    row = '    TENANT_MODE = ("tenant/mode", GateScope.TENANT, "mode", "BURST")\n'
    copy.edit(rules, "    PLATFORM = (", f"{row}    PLATFORM = (")
    field = '    mode: _Name | None = None\n    """One mode of the tenant\'s jobs."""\n'
    copy.edit(requests, "    service: _Name | None", f"{field}    service: _Name | None")
    field = '    mode: str | None\n    """Of a gate of a mode."""\n'
    copy.edit(responses, "    etag: str", f"{field}    etag: str")


def test_a_step_type_is_data(copy: Copy) -> None:
    """A protocol, a payload schema and a service in the topology: API, bus and deployment follow by `make generate`.

    tests/infra/test_templates.py, which has a process of the compiler, checks the templates with one more service.
    """
    assert copy.run("-c", _READ_PROTOCOL).strip() == "translation"
    assert '"translation"' in copy.text("infra/bus/Config.json")
    assert "Payload of the TRANSLATION step" in copy.text("docs/openapi.json")
    keys = {entry["key"] for entry in json.loads(copy.text("infra/bicep/protocols.json"))}
    assert {"lucius:protocols:translation", "lucius:schemas:steps/translation.schema.json"} <= keys


def test_a_reason_is_one_row(copy: Copy) -> None:
    """A member of `Reason`: the runbook and the API's description follow by `make generate`."""
    assert re.search(r"`NO_BUDGET`.*budget is spent.*raise the budget", copy.text("docs/guides/operations.md"))
    assert "NO_BUDGET" in copy.text("docs/openapi.json")


_READ_PAGE_SIZE = """
from shared.settings import load

minimal = {"LUCIUS_SERVICEBUS_CONNECTION": "x", "LUCIUS_STORAGE_BACKEND": "memory", "LUCIUS_AUTH_MODE": "none"}
print(load(minimal | {"LUCIUS_PAGE_SIZE": "7"}).page_size)
"""


def test_a_setting_is_one_declaration(copy: Copy) -> None:
    """A field of `Settings`: the reader, its table in the docs and the deployment's parameter follow."""
    assert "| `LUCIUS_PAGE_SIZE` | `50` | `tuning` | Lines of a page that names no limit |" in copy.text(
        "docs/reference/settings.md"
    )
    assert "LUCIUS_PAGE_SIZE: string?" in copy.text("infra/bicep/modules/app-settings.bicep")
    assert copy.run("-c", _READ_PAGE_SIZE).strip() == "7"


def test_a_metric_is_one_row(copy: Copy) -> None:
    """A row of `METRICS`: the table of docs/reference/observability.md follows."""
    assert re.search(r"`page_total`.*Pages read", copy.text("docs/reference/observability.md"))


def test_a_route_is_one_handler(copy: Copy) -> None:
    """A handler with its declaration: the OpenAPI document and the table of routes follow."""
    described = json.loads(copy.text("docs/openapi.json"))["paths"]["/v1/services"]["get"]
    assert (described["operationId"], described["summary"]) == ("services_list", "List the services")
    assert re.search(r"`/v1/services`.*`orch:read`.*List the services", copy.text("docs/reference/api.md"))


_REFUSE = """
import json
from shared.refusals import JobSealed
from triggers.http.problems import problem_response

response = problem_response(JobSealed(), "c")
problem = json.loads(response.get_body())
print(response.status_code, problem["code"], problem["detail"])
"""


def test_a_refusal_is_one_class(copy: Copy) -> None:
    """A class of `Refused`, and its name in a route: problem, OpenAPI document and table of problems follow."""
    assert copy.run("-c", _REFUSE).strip() == "410 JOB_SEALED the job is sealed; ask an operator"
    assert "| `JOB_SEALED` | 410 | The job is sealed and cannot be read. |" in copy.text("docs/reference/errors.md")
    responses = json.loads(copy.text("docs/openapi.json"))["paths"]["/v1/jobs/{jobId}"]["get"]["responses"]
    assert "`JOB_SEALED`: The job is sealed and cannot be read." in responses["410"]["description"]


_FILTER = """
from shared.core.filters import JobFilter, parse_filter
from shared.core.jobs.states import JobStatus

red = parse_filter(JobFilter, {"team": "red"})
print([red.may_match(JobStatus.QUEUED, "OCR", {"team": team}) for team in ("red", "blue")], red.matches_every_row)
"""


def test_a_filter_is_one_field(copy: Copy) -> None:
    """A field of `JobFilter`, compared with a row: routes, the body of a bulk operation and the client follow."""
    assert copy.run("-c", _FILTER).strip() == "[True, False] False"
    document = json.loads(copy.text("docs/openapi.json"))
    for path in ("/v1/jobs", "/v1/deadletters", "/v1/receipts"):
        assert "team" in {each.get("name") for each in document["paths"][path]["get"]["parameters"]}
    body = document["components"]["schemas"]["BulkRequest"]["properties"]["filter"]
    assert body["properties"]["team"] == {"type": "string", "description": "Jobs of this team."}
    assert "    team: str | None\n" in copy.text("packages/lucius-client/lucius_client/filters.py")


_WRITE_EVENT = """
from shared.core.events.public_events import Issuer, number_event
from shared.core.webhooks.hook_log import append_hook_entry, make_hook_event
from shared.core.webhooks.webhooks import HookAct
from tests.core.webhooks.test_deliveries import HOOK
from tests.event_checks import check_event
from tests.jobs import START

event = make_hook_event(*append_hook_entry(HOOK, HookAct.ROTATED, actor="ann", reason="CALLER", at=START))
check_event(number_event(event, 1, Issuer("test")))
"""


def test_a_type_of_event_is_in_two_files(copy: Copy) -> None:
    """Its payload and the row that it follows from: schema, documents and the filter of the feed follow."""
    copy.run("-c", _WRITE_EVENT)
    assert "| `webhook.rotated` | A webhook got a new secret. | `status`, `reason` |" in copy.text(
        "docs/reference/events.md"
    )
    assert all('"webhook.rotated"' in copy.text(f"docs/{name}.json") for name in ("asyncapi", "openapi"))


_FILL_MODE = """
from shared.core.gates.admission_state import AdmissionState, WaitingQueue, evaluate_gates
from shared.core.gates.rules import Directory, Gate, GateKind, GateState, Rule
from shared.api.quota import quota
from tests.jobs import START

gate = Gate(GateKind.TENANT_MODE, "tenant_a", "BURST")
state = GateState(gate=gate, rule=Rule(max_active=2))
admission = AdmissionState(
    tenant="tenant_a", gates={gate.id: state}, active_by_kind={("OCR", "BURST"): 2}, counted_at=START
)
for mode in ("BURST", "DEFAULT"):
    line = WaitingQueue(job_type="OCR", mode=mode, source=None, emergency=False)
    found = evaluate_gates(admission, Directory(), line, START, emergency=False)
    print([verdict.gate.display_name for verdict in found if verdict.blocked_by])
print(quota(admission, Directory(), state, START, None).mode)
"""


def test_a_kind_of_quota_is_one_row(copy: Copy) -> None:
    """A member of `GateKind`, and for a tenant's the fields of request and response: admission and routes follow."""
    assert copy.run("-c", _FILL_MODE).splitlines() == ["['tenant tenant_a, mode BURST']", "[]", "BURST"]
    document = json.loads(copy.text("docs/openapi.json"))
    for path in ("/v1/quotas", "/v1/quotas/{gate}"):
        parameters = document["paths"][path]["get"]["parameters"]
        assert {"mode", "type", "source"} <= {each.get("name") for each in parameters}
    assert "mode" in document["components"]["schemas"]["Resume"]["properties"]
    assert all('"tenant/mode"' in copy.text(f"docs/{name}.json") for name in ("asyncapi", "openapi"))


def test_the_changes_pass_the_tests_that_their_developers_run(copy: Copy) -> None:
    """The names are promised by one command; the tests of topology, rules and settings pass."""
    added = copy.run("-m", "tests.promised_names", "--add")
    assert "+ codes: JOB_SEALED" in added
    assert "+ http fields: BulkRequest.filter.team" in added
    assert "+ codes: NO_BUDGET" in added
    assert "+ settings: LUCIUS_PAGE_SIZE" in added
    assert "+ metrics: page_total" in added
    copy.test("tests/emulator/test_topology.py", "tests/test_rules.py", "tests/test_settings.py")
