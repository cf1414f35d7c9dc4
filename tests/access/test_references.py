import pytest

from shared.access.references import ReferencePolicy

POLICY = ReferencePolicy(frozenset({"https", "s3", "abfss"}), frozenset({"account.blob.core.windows.net"}))


@pytest.mark.parametrize(
    "uri",
    ["https://account.blob.core.windows.net/documents/a.pdf", "https://ACCOUNT.blob.core.windows.net:443/a?sig=x"],
)
def test_allowed(uri: str) -> None:
    """A reference to an allowed host passes."""
    assert POLICY.violation(uri) is None


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
    refused = POLICY.violation(uri)
    assert refused is not None
    assert why in refused


CONTAINERS = ReferencePolicy(
    frozenset({"https", "s3", "abfss"}),
    frozenset({"account.blob.core.windows.net/documents", "lake.dfs.core.windows.net/raw", "bucket"}),
)


@pytest.mark.parametrize(
    "uri",
    [
        "https://account.blob.core.windows.net/documents/a/b.pdf",
        "https://account.blob.core.windows.net/Documents?comp=list",
        "https://account.blob.core.windows.net/%64ocuments/a",
        "abfss://raw@lake.dfs.core.windows.net/a.parquet",
        "s3://bucket/any/key",
    ],
)
def test_an_allowed_container(uri: str) -> None:
    """The first folder, or what stands before the @ of an abfss URI; a host alone allows all of its containers."""
    assert CONTAINERS.violation(uri) is None


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("https://account.blob.core.windows.net/secrets/a", "container 'secrets'"),
        ("https://account.blob.core.windows.net/documents2/a", "container 'documents2'"),
        ("https://account.blob.core.windows.net/", "container ''"),
        ("https://account.blob.core.windows.net", "container ''"),
        ("https://account.blob.core.windows.net/documents/../secrets/a", "path segments"),
        ("https://account.blob.core.windows.net/documents/%2e%2E/secrets/a", "path segments"),
        ("https://account.blob.core.windows.net/documents%2f..%2fsecrets/a", "path segments"),
        ("abfss://secret@lake.dfs.core.windows.net/raw/a", "container 'secret'"),
        ("abfss://lake.dfs.core.windows.net/raw/a", "container None"),
        ("https://other.blob.core.windows.net/documents/a", "host"),
    ],
)
def test_another_container_is_refused(uri: str, why: str) -> None:
    """However its name is written, and whatever leads out of the allowed one."""
    assert why in (CONTAINERS.violation(uri) or "")
