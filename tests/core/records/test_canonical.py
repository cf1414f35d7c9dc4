import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.jobs.plan import compute_digests
from shared.core.jobs.states import JobStatus
from shared.core.records.canonical import _with_doubles, canonical_json, jcs
from shared.core.records.strict_json import parse_json
from tests.jobs import envelope


def test_canonical_json_follows_the_rules() -> None:
    """Sorted keys, arrays in order, numbers without trailing zeros, nulls in objects omitted, UTF-8 as it is."""
    value = json.loads('{"b": 1.0, "a": [3, 1.50, null], "c": null, "é": {"z": true, "y": "ü"}}')
    assert canonical_json(value) == '{"a":[3,1.5,null],"b":1,"é":{"y":"ü","z":true}}'


def test_same_request_in_other_words_is_the_same_job() -> None:
    """Tenant case, a bare string for a reference, key order and 1.0 do not make another job."""
    one = envelope(tenant_id="Tenant_A ", input_ref="https://host/a.pdf", payload={"ocr": {"a": 1.0, "b": None}})
    two = envelope(input_ref={"uri": "https://host/a.pdf"}, payload={"ocr": {"a": 1}})
    assert compute_digests(one) == compute_digests(two) or compute_digests(one).body == compute_digests(two).body
    assert compute_digests(one).claim == compute_digests(two).claim


def test_key_and_body_claims_never_meet() -> None:
    """A caller's key is a separate kind of claim; the body hash stays the same."""
    plain, keyed = compute_digests(envelope()), compute_digests(envelope(idempotency_key="k-1"))
    assert plain.body == keyed.body
    assert plain.claim != keyed.claim


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": 1, "a": 2}', "'a' occurs twice"),
        (b'{"a": "\\ud800"}', "lone surrogate"),
        (b"[" * 65 + b"]" * 65, "more than 64 nested levels"),
        (b'{"a": ', "not JSON: Expecting value at line 1, column 7"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_strict_json_refuses_with_a_reason(body: bytes, message: str) -> None:
    """A text that two parsers could read differently is refused in one line."""
    with pytest.raises(ValueError, match=message):
        parse_json(body)


def test_strict_json_takes_brackets_in_strings() -> None:
    """Depth is counted outside of strings only."""
    assert parse_json(b'{"a": "[[[\\"[[["}') == {"a": '[[["[[['}


def test_histories_are_hashed_over_rfc_8785() -> None:
    """The example of RFC 8785, section 3.2.2, keys in the order of their UTF-16 units, and integers past 2^53."""
    numbers = [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001]
    value = {"numbers": numbers, "string": "\u20ac$\u000f\nA'\u0042\u0022\u005c\\\"/", "literals": [None, True, False]}
    assert jcs(value).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert jcs({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()
    assert jcs([2**53 + 1, -(2**60), 2**53 - 1]) == b"[9007199254740992,-1152921504606847000,9007199254740991]"


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**53 - 3, 2**53 + 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.text('",:[]{}-.e0159\\\n\x7f')
    | st.sampled_from(["1.5", ",1.5", '":1.5', "\ue000", "\U00010000", JobStatus.QUEUED])
)
_KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(["\ue000", "\U00010000", "a"])
_JSON = st.recursive(_SCALARS, lambda part: st.lists(part, max_size=4) | st.dictionaries(_KEYS, part, max_size=4))


@settings(deadline=None)
@given(_JSON)
def test_what_is_written_in_c_is_rfc_8785(value: Any) -> None:
    """The C encoder has the same output as the Python one, which the RFC's example tests."""
    assert jcs(value) == rfc8785.dumps(_with_doubles(value))


def test_every_character_is_written_alike() -> None:
    """In a string, and as a key, one character at a time."""
    for number in (*range(0xD800), *range(0xE000, 0x11000)):
        value = {chr(number): chr(number)}
        assert jcs(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, float("nan"), [float("inf")], object()])
def test_what_json_has_not_is_refused(value: Any) -> None:
    """Lone surrogates, numbers that are not finite, and values that are not JSON."""
    with pytest.raises((rfc8785.CanonicalizationError, UnicodeEncodeError)):
        jcs(value)
