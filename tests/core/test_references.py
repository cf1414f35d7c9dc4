import pytest

from shared.core.references import ReferencePolicy

POLICY = ReferencePolicy(frozenset({"https", "s3", "abfss"}), frozenset({"account.blob.core.windows.net"}))


@pytest.mark.parametrize(
    "uri",
    ["https://account.blob.core.windows.net/documents/a.pdf", "https://ACCOUNT.blob.core.windows.net:443/a?sig=x"],
)
def test_allowed(uri: str) -> None:
    """A reference to an allowed host passes."""
    assert POLICY.refuse(uri) is None


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("http://account.blob.core.windows.net/a", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("a.pdf", "absolute"),
        ("https://evil.example/a", "host"),
        ("https://account.blob.core.windows.net@evil.example/a", "user information"),
        ("https://account.blob.core.windows.net\\@evil.example/a", "backslashes"),
        ("https:///a", "names no host"),
        ("https://account.blob.core.windows.net:port/a", "not a URI"),
        ("https://account.blob.core.windows.net/a b", "spaces"),
    ],
)
def test_refused(uri: str, why: str) -> None:
    """Tricks and foreign hosts are refused, with the reason."""
    refused = POLICY.refuse(uri)
    assert refused is not None
    assert why in refused
