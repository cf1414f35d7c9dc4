import pytest

from shared.access.references import ReferencePolicy, Workspace

POLICY = ReferencePolicy(frozenset({"https", "s3", "abfss"}), frozenset({"account.blob.core.windows.net"}))


@pytest.mark.parametrize(
    "uri",
    ["https://account.blob.core.windows.net/documents/a.pdf", "https://ACCOUNT.blob.core.windows.net:443/a?snapshot=x"],
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
        ("https://account.blob.core.windows.net:8443/a", "host 'account.blob.core.windows.net:8443'"),
        ("https://account.blob.core.windows.net/a?sv=2024&sig=secret", "a credential (sig)"),
        ("https://account.blob.core.windows.net/a?X-Amz-Signature=secret", "a credential (X-Amz-Signature)"),
        ("https://account.blob.core.windows.net/a#token=secret", "a credential (token)"),
        ("abfss://documents:password@account.blob.core.windows.net/a", "user information"),
        ("https://account.blob.core.windows.net/a/%252e%252e/b", "path segments"),
        ("https://account.blob.core.windows.net/a%252fb", "encoded slash"),
        ("https://account.blob.core.windows.net//documents/a", "empty first one"),
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
        ("abfss://lake.dfs.core.windows.net/raw/a", "container ''"),
        ("https://other.blob.core.windows.net/documents/a", "host"),
    ],
)
def test_another_container_is_refused(uri: str, why: str) -> None:
    """However its name is written, and whatever leads out of the allowed one."""
    assert why in (CONTAINERS.violation(uri) or "")


OWN = Workspace("https://stdoc.blob.core.windows.net/workspace", "lucius", "tenant_a")
#: for any host, and for listed ones
ANY, LISTED = (
    ReferencePolicy(frozenset({"https", "abfss"}), hosts, OWN)
    for hosts in (frozenset(), frozenset({"stdoc.blob.core.windows.net/documents/{tenant}", "lake.example:8443"}))
)


@pytest.mark.parametrize("policy", [ANY, LISTED])
@pytest.mark.parametrize(
    ("uri", "allowed"),
    [
        ("https://stdoc.blob.core.windows.net/workspace/lucius/tenant_a/job_1/OCR/1/text.json", True),
        ("https://stdoc.blob.core.windows.net/workspace/lucius/TENANT_A/job_1/OCR/1/text.json", True),
        ("https://stdoc.blob.core.windows.net/workspace/lucius/tenant_b/job_1/OCR/1/text.json", False),
        ("https://stdoc.blob.core.windows.net/workspace/lucius/tenant_a/../tenant_b/job_1/text.json", False),
        ("https://stdoc.blob.core.windows.net/workspace/lucius/tenant_a%2f..%2ftenant_b/text.json", False),
        ("https://stdoc.blob.core.windows.net:443/Workspace/lucius/tenant_b/text.json", False),
        ("https://stdoc.blob.core.windows.net/%77orkspace/lucius/tenant_b/text.json", False),
        ("https://stdoc.dfs.core.windows.net/workspace/lucius/tenant_b/text.json", False),
        ("https://stdoc-secondary.blob.core.windows.net/workspace/lucius/tenant_b/text.json", False),
        ("abfss://workspace@stdoc.dfs.core.windows.net/lucius/tenant_b/text.json", False),
        ("abfss://workspace@stdoc.dfs.core.windows.net/lucius/tenant_a/text.json", True),
        ("https://stdoc.blob.core.windows.net/workspace/", False),
    ],
)
def test_the_workspace_is_each_tenants_own(policy: ReferencePolicy, uri: str, allowed: bool) -> None:
    """Its own folder whatever the lists say, and no other part of that container, however it is written."""
    assert (policy.violation(uri) is None) is allowed


@pytest.mark.parametrize(
    ("uri", "allowed"),
    [
        ("https://stdoc.blob.core.windows.net/documents/tenant_a/lease.pdf", True),
        ("https://stdoc.blob.core.windows.net/documents/tenant_b/lease.pdf", False),
        ("https://stdoc.blob.core.windows.net/documents/tenant_a2/lease.pdf", False),
        ("https://lake.example:8443/any/thing", True),
        ("https://lake.example/any/thing", False),
    ],
)
def test_a_list_may_name_a_folder_of_the_tenant_and_a_port(uri: str, allowed: bool) -> None:
    """`{tenant}` stands for the tenant whose job it is; a port is part of the host."""
    assert (LISTED.violation(uri) is None) is allowed


def test_a_tenant_whose_name_needs_encoding_has_its_workspace() -> None:
    """The slash in its name is no path of the caller's."""
    own = Workspace("http://127.0.0.1:10000/devstoreaccount1/workspace", "lucius", "contoso/eu")
    policy = ReferencePolicy(frozenset({"http"}), frozenset(), own)
    assert policy.violation(f"{own.prefix}job_1/OCR/1/text.json") is None
    assert policy.violation(f"{own.prefix}..%2f..%2fother/text.json") is not None
    assert policy.violation("http://127.0.0.1:10000/devstoreaccount1/workspace/lucius/contoso/eu/text.json") is not None
