from typing import Any

import pytest

from shared.access.references import ReferencePolicy, credential_member
from shared.core.jobs.plan import Workspace

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
        ("https:///a", "must name a host"),
        ("https://account.blob.core.windows.net:port/a", "not a URI"),
        ("https://account.blob.core.windows.net/a b", "spaces"),
        ("https://account.blob.core.windows.net:8443/a", "host 'account.blob.core.windows.net:8443'"),
        ("https://account.blob.core.windows.net/a?sv=2024&sig=secret", "a credential (sig)"),
        ("https://account.blob.core.windows.net/a?X-Amz-Signature=secret", "a credential (X-Amz-Signature)"),
        ("https://account.blob.core.windows.net/a#token=secret", "a credential (token)"),
        ("abfss://documents:password@account.blob.core.windows.net/a", "user information"),
        ("https://account.blob.core.windows.net/a/%252e%252e/b", "path segment"),
        ("https://account.blob.core.windows.net/a%252fb", "encoded slash"),
        ("https://account.blob.core.windows.net//documents/a", "empty first segment"),
    ],
)
def test_refused(uri: str, why: str) -> None:
    """Tricks and foreign hosts are refused, with the reason."""
    refused = POLICY.violation(uri)
    assert refused is not None
    assert why in refused


@pytest.mark.parametrize(
    "member",
    [
        {"sas": "sv=2024"},
        {"SAS_Token": 7},
        {"AccountKey": None},
        {"x-amz-signature": "a"},
        {"auth": {"deep": [{"Client-Secret": "a"}]}},
        {"download": "https://account.blob.core.windows.net/documents/a?sv=2024&sig=a"},
        {"download": ["?%73ig=a"]},
        {"note": "SharedAccessSignature sv=2024&sig=a"},
        {"note": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=a=="},
        {"sas": "", "uri": "https://account.blob.core.windows.net/a"},
    ],
)
def test_a_further_member_that_holds_a_credential(member: dict[str, Any]) -> None:
    """A field has a credential by its name or by the assignments in its text, at any depth."""
    assert credential_member({"uri": "https://account.blob.core.windows.net/a", **member}) == next(iter(member))


@pytest.mark.parametrize(
    "member",
    [
        {"etag": '"0x8D"', "version_id": "1=2", "sha256": "ab==", "key": "folder/a.pdf", "signed_by": "a"},
        {"range": {"from": 1, "to": [2, None, True]}, "note": "design=new; see page=3", "query": "?snapshot=2024"},
    ],
)
def test_other_members_are_passed_on(member: dict[str, Any]) -> None:
    """Services need further fields besides the URI; the URI has its own rule."""
    assert credential_member({"uri": "https://a.example/a?sig=a", **member}) is None


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
    """The first folder, or the part before the @ of an abfss URI; a host alone allows all of its containers."""
    assert CONTAINERS.violation(uri) is None


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("https://account.blob.core.windows.net/secrets/a", "container 'secrets'"),
        ("https://account.blob.core.windows.net/documents2/a", "container 'documents2'"),
        ("https://account.blob.core.windows.net/", "container ''"),
        ("https://account.blob.core.windows.net", "container ''"),
        ("https://account.blob.core.windows.net/documents/../secrets/a", "path segment"),
        ("https://account.blob.core.windows.net/documents/%2e%2E/secrets/a", "path segment"),
        ("https://account.blob.core.windows.net/documents%2f..%2fsecrets/a", "path segment"),
        ("abfss://secret@lake.dfs.core.windows.net/raw/a", "container 'secret'"),
        ("abfss://lake.dfs.core.windows.net/raw/a", "must name a container"),
        ("https://other.blob.core.windows.net/documents/a", "host"),
    ],
)
def test_another_container_is_refused(uri: str, why: str) -> None:
    """In any spelling of its name, and with any path that leaves the allowed one."""
    assert why in (CONTAINERS.violation(uri) or "")


OWN = Workspace("https://stdoc.blob.core.windows.net/workspace", "tenant_a")
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
    """Its own folder with any lists, and no other part of that container, in any spelling."""
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
    """`{tenant}` is replaced by the job's tenant; a port is part of the host."""
    assert (LISTED.violation(uri) is None) is allowed


BASE = "http://127.0.0.1:10000/devstoreaccount1/workspace"


@pytest.mark.parametrize("tenant", ["contoso/eu", "a%41", "../tenant_b", "a=2fb", "größe & co", "a b"])
def test_a_tenant_whose_name_needs_encoding_has_its_workspace(tenant: str) -> None:
    """Its folder is one segment that no decoding changes; nothing leads out of it."""
    own = Workspace(BASE, tenant)
    policy = ReferencePolicy(frozenset({"http"}), frozenset(), own)
    assert policy.violation(f"{own.uri}/job_1/OCR/1/text.json") is None
    assert policy.violation(f"{own.uri}/..%2f..%2fother/text.json") is not None
    for other in ("contoso", "aa", "tenant_b", "a/b", "a"):
        assert policy.violation(f"{Workspace(BASE, other).uri}/job_1/text.json") is not None
        assert ReferencePolicy(frozenset({"http"}), frozenset(), Workspace(BASE, other)).violation(
            f"{own.uri}/job_1/text.json"
        )


@pytest.mark.parametrize(
    "uri",
    [
        "https://%73tdoc.blob.core.windows.net/workspace/lucius/tenant_b/x",
        "https://stdoc%2Eblob.core.windows.net/workspace/lucius/tenant_b/x",
        "https://\uff53tdoc.blob.core.windows.net/workspace/lucius/tenant_b/x",
        "https://stdoc\u3002blob.core.windows.net/workspace/lucius/tenant_b/x",
        "https://stdoc.blob.core.windows.net./workspace/lucius/tenant_b/x",
        "https://stdoc.z12.blob.storage.azure.net/workspace/lucius/tenant_b/x",
        "https://stdoc.blob.core.windows.net/workspace/lucius/tenant_%2561/x",
        "abfss://work%73pace@stdoc.dfs.core.windows.net/lucius/tenant_b/x",
        "abfss://stdoc.dfs.core.windows.net/workspace/lucius/tenant_b/x",
    ],
)
def test_other_names_of_the_account_lead_nowhere_else(uri: str) -> None:
    """Hosts and containers that readers resolve in different ways are refused, with any lists."""
    assert ANY.violation(uri) is not None


@pytest.mark.parametrize("host", ["localhost:10000", "127.1:10000", "127.0.0.1:10000"])
def test_azurite_has_one_workspace_by_all_its_names(host: str) -> None:
    """A laptop's loopback names are one account."""
    policy = ReferencePolicy(frozenset({"http"}), frozenset(), Workspace(BASE, "tenant_a"))
    assert policy.violation(f"http://{host}/devstoreaccount1/workspace/lucius/tenant_b/x") is not None
    assert policy.violation(f"http://{host}/devstoreaccount1/workspace/lucius/tenant_a/x") is None


def test_a_key_of_s3_may_begin_with_a_slash() -> None:
    """It is part of the key."""
    assert ReferencePolicy(frozenset({"s3"})).violation("s3://bucket//key") is None
