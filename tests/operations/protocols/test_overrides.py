import pytest

from shared.adapters.protocol_files import load_schemas, load_services
from shared.core.jobs.routing import Modes, decide_lane
from shared.operations.protocols.overrides import CatalogState, apply_overrides
from tests.jobs import ROOT, envelope, registry
from tests.operations.support import ocr, version_of

SCHEMAS = load_schemas(ROOT / "protocols")
SERVICES = load_services(ROOT / "infra" / "bicep" / "topology.json")


def configured(values: dict[str, str], before: CatalogState | None = None) -> CatalogState:
    return apply_overrides(values, before or CatalogState(registry()), SCHEMAS, SERVICES)


def test_the_store_is_the_source_of_truth() -> None:
    """Its protocols replace the packaged ones, and a protocol that is removed from it is no longer available."""
    known = configured(ocr())
    assert (known.registry.request_types, version_of(known), known.problems) == (["OCR"], 2, ())


def test_a_schema_of_the_store_comes_before_the_packaged_one() -> None:
    """`lucius:schemas:{path}` replaces a payload schema by its path."""
    known = configured(ocr() | {"lucius:schemas:steps/ocr.schema.json": '{"required": ["dpi"]}'})
    found = known.registry.find("OCR")
    assert found is not None
    assert found.payload_errors({}) == [("payload", "'dpi' is a required property")]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"lucius:protocols:ocr": "{"}, "not JSON"),
        (ocr(protocol_id="other"), "the key of this definition must be lucius:protocols:other"),
        (ocr(steps=[]), "steps"),
        (ocr(steps=[{"step_id": "a", "step_type": "A", "service": "nobody"}]), "no subscription"),
        (ocr() | {"lucius:schemas:steps/ocr.schema.json": "{"}, "not JSON"),
        (ocr() | {"lucius:tenants:a:mode": "FAST"}, "'FAST' is not one of"),
        (ocr() | {"lucius:defaults:mode": "FAST"}, "'FAST' is not one of"),
        (ocr() | {"lucius:tenants:*:mode": "BURST"}, "reserved for every tenant"),
        (ocr() | {"lucius:tenants:=Platform:ref_hosts": "a.example"}, "reserved for events without a tenant"),
    ],
)
def test_what_cannot_be_meant_is_named_and_changes_nothing(bad: dict[str, str], words: str) -> None:
    """The last valid definition stays in use, and changes of others take effect."""
    before = configured(ocr(version=7) | {"lucius:tenants:a:mode": "BURST", "lucius:defaults:mode": "BURST"})
    good = {"lucius:tenants:a:mode": "BURST", "lucius:defaults:mode": "BURST", "lucius:tenants:b:mode": "DEFAULT"}
    after = configured(good | bad, before)
    assert len(after.problems) == 1
    assert words in after.problems[0]
    assert (after.modes.tenants["a"], after.modes.default) == ("BURST", "BURST")
    assert after.modes.tenants["b"] == "DEFAULT"


def test_a_bad_definition_leaves_the_good_one() -> None:
    """A broken edit keeps the version before it."""
    before = configured(ocr(version=7))
    assert version_of(configured({"lucius:protocols:ocr": "{"}, before)) == 7


def test_two_protocols_for_one_request_type_change_nothing() -> None:
    """Protocols that contradict each other are refused together."""
    before = configured(ocr(version=7))
    both = ocr() | {"lucius:protocols:ocr_too": ocr(protocol_id="ocr_too")["lucius:protocols:ocr"]}
    after = configured(both, before)
    assert (version_of(after), len(after.problems)) == (7, 1)


def test_an_empty_store_leaves_the_protocols() -> None:
    """Modes may be configured alone."""
    after = configured({"lucius:tenants: Tenant_A :mode": "BURST"})
    assert after.registry.request_types == registry().request_types
    assert after.modes.tenants == {"tenant_a": "BURST"}


def test_a_tenant_has_hosts_of_its_own() -> None:
    """A comma-separated list by tenant; an empty one allows no host, a missing one the setting's hosts."""
    values = {
        "lucius:tenants: Tenant_A :ref_hosts": "A.example/docs, b.example",
        "lucius:tenants:tenant_b:ref_hosts": "",
    }
    allowed = configured(values).ref_hosts
    assert allowed == {"tenant_a": frozenset({"a.example/docs", "b.example"}), "tenant_b": frozenset({""})}


def test_safe_is_default() -> None:
    """The older name of a mode is taken in the store as in a request and in the setting."""
    after = configured(ocr() | {"lucius:tenants:a:mode": "SAFE", "lucius:defaults:mode": "SAFE"})
    assert (after.modes.tenants, after.modes.default, after.problems) == ({"a": "DEFAULT"}, "DEFAULT", ())
    assert envelope(mode="SAFE").mode == "DEFAULT"


@pytest.mark.parametrize(
    ("mode", "modes", "expected"),
    [
        (None, Modes({"tenant_a": "BURST"}, "DEFAULT"), ("BURST", "TENANT_CONFIG")),
        (None, Modes({"another": "BURST"}, None), ("DEFAULT", "GLOBAL_CONFIG")),
        (None, Modes({}, "BURST"), ("BURST", "GLOBAL_CONFIG")),
        ("DEFAULT", Modes({"tenant_a": "BURST"}, "BURST"), ("DEFAULT", "REQUEST")),
    ],
)
def test_request_before_tenant_before_default(mode: str | None, modes: Modes, expected: tuple[str, str]) -> None:
    """The precedence of the sources of the mode, and its record."""
    asked = envelope(tenant_id=" Tenant_A", doc_id="doc-1", **({"mode": mode} if mode else {}))
    way = decide_lane(asked, default_mode="DEFAULT", lanes=16, modes=modes)
    assert (way.resolved_mode, way.decision_source) == expected
