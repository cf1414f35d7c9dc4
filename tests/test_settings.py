import base64
import itertools
from datetime import timedelta

import pytest

from shared.access_settings import SignIn
from shared.errors import SettingsError
from shared.older_settings import NOT_READ
from shared.settings import SETTINGS, load
from tests.jobs import DEFAULTS

MINIMAL = {
    "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=secret",
    "LUCIUS_TABLE_CONNECTION": "UseDevelopmentStorage=true",
    "LUCIUS_BLOB_CONNECTION": "UseDevelopmentStorage=true",
    "LUCIUS_AUTH_MODE": "none",
}


def test_defaults_are_the_contracts() -> None:
    """A setting that is not set has its documented default."""
    settings = load(MINIMAL)
    assert (settings.lanes, settings.reply_prefix) == (16, "global-bus-replies-p")
    assert settings.timing_defaults.ack_backoffs == (60, 300, 900)
    assert settings.timing_defaults == DEFAULTS
    assert settings.workspace_uri == "http://127.0.0.1:10000/devstoreaccount1/workspace"
    assert "http" in settings.allowed_ref_schemes


def test_everything_wrong_is_named_at_once() -> None:
    """One start reports every setting that is missing or wrong."""
    with pytest.raises(SettingsError) as wrong:
        load({"LUCIUS_MAX_ATTEMPTS": "none", "LUCIUS_ACK_BACKOFF_SECONDS": "1,x"})
    for name in (
        "LUCIUS_SERVICEBUS_CONNECTION",
        "LUCIUS_TABLE_CONNECTION",
        "LUCIUS_BLOB_CONNECTION",
        "LUCIUS_MAX_ATTEMPTS",
        "LUCIUS_ACK_BACKOFF_SECONDS",
    ):
        assert name in str(wrong.value)


@pytest.mark.parametrize(
    "deployed",
    [
        {"WEBSITE_SITE_NAME": "lucius"},
        {"CONTAINER_APP_NAME": "lucius"},
        {"IDENTITY_ENDPOINT": "http://127.0.0.1:42356/msi/token"},
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
        {"LUCIUS_AUTH_ISSUER": "https://login.example/tenant/v2.0"},
        {"LUCIUS_AUTH_TENANT_CLAIM": "azp"},
        {"LUCIUS_TABLE_CONNECTION": "", "LUCIUS_TABLE_ENDPOINT": "https://stled.table.core.windows.net"},
        {"LUCIUS_BLOB_CONNECTION": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=aw=="},
        {"LUCIUS_APPCONFIG_ENDPOINT": "https://appcs.azconfig.io"},
        {"LUCIUS_SERVICEBUS_CONNECTION": "", "LUCIUS_SERVICEBUS_CONNECTION__fullyQualifiedNamespace": "sb.example"},
    ],
    ids=lambda deployed: max(deployed),
)
def test_no_authentication_is_for_laptops(deployed: dict[str, str]) -> None:
    """An app that looks deployed, anywhere, does not start without identity; the default requires tokens."""
    with pytest.raises(SettingsError, match=f"LUCIUS_AUTH_MODE=none is refused in a deployment, .*{max(deployed)}"):
        load(MINIMAL | deployed)
    with pytest.raises(SettingsError, match="LUCIUS_AUTH_ISSUER is not set: LUCIUS_AUTH_MODE=jwt requires it"):
        load(MINIMAL | {"LUCIUS_AUTH_MODE": ""})


def test_a_ledger_in_memory_is_refused_in_azure() -> None:
    """A deployed app that every restart would empty does not start."""
    with pytest.raises(SettingsError, match="LUCIUS_STORAGE_BACKEND=memory is refused in Azure"):
        load(MINIMAL | JWT | {"WEBSITE_SITE_NAME": "lucius", "LUCIUS_STORAGE_BACKEND": "memory"})


@pytest.mark.parametrize("transport", ["", "direct"])
def test_the_direct_transport_takes_no_signed_url(transport: str) -> None:
    """A connection string without the account's key needs the SDK; no other transport is known."""
    signed = {"LUCIUS_TABLE_CONNECTION": "TableEndpoint=http://127.0.0.1:1/a;SharedAccessSignature=sv=1&sig=2"}
    with pytest.raises(SettingsError, match="has a SharedAccessSignature; set LUCIUS_TABLE_TRANSPORT=sdk"):
        load(MINIMAL | signed | {"LUCIUS_TABLE_TRANSPORT": transport})
    assert load(MINIMAL | signed | {"LUCIUS_TABLE_TRANSPORT": "sdk"}).table_transport == "sdk"
    with pytest.raises(SettingsError, match="LUCIUS_TABLE_TRANSPORT must be one of direct, sdk"):
        load(MINIMAL | {"LUCIUS_TABLE_TRANSPORT": "SDK"})


JWT = {
    "LUCIUS_AUTH_ISSUER": "https://login.example/tenant/v2.0",
    "LUCIUS_AUTH_AUDIENCE": "api://lucius, 6f0e8d2c",
    "LUCIUS_AUTH_JWKS_URL": "https://login.example/keys",
}


def test_the_dashboard_signs_in_where_tokens_are_required() -> None:
    """With the scope of the first audience, or its own; at an address that browsers can trust; not on a laptop."""
    client = {"LUCIUS_DASHBOARD_CLIENT_ID": "page"}
    signed = MINIMAL | JWT | client | {"LUCIUS_AUTH_MODE": "jwt"}
    assert load(signed).sign_in == SignIn("https://login.example/tenant/v2.0", "page", "api://lucius/.default")
    own = load(signed | {"LUCIUS_DASHBOARD_SCOPE": "orch:read"}).sign_in
    assert own is not None
    assert own.scope == "orch:read"
    assert load(MINIMAL | client).sign_in is None
    with pytest.raises(SettingsError, match="LUCIUS_AUTH_ISSUER must be an https URL"):
        load(signed | {"LUCIUS_AUTH_ISSUER": "http://login.example"})


def test_in_azure_missing_identity_is_named_and_stops_the_start() -> None:
    """Tokens are required by default, and one line names all missing settings of their check."""
    with pytest.raises(SettingsError) as wrong:
        load(MINIMAL | {"WEBSITE_SITE_NAME": "lucius", "LUCIUS_AUTH_MODE": ""})
    for name in ("LUCIUS_AUTH_ISSUER", "LUCIUS_AUTH_AUDIENCE", "LUCIUS_AUTH_JWKS_URL"):
        assert f"{name} is not set" in str(wrong.value)


def test_in_azure_tokens_are_asked_for_without_saying_so() -> None:
    """With its settings there, a deployed app checks tokens; an empty mode is not `none`."""
    for mode in ({"LUCIUS_AUTH_MODE": "jwt"}, {"LUCIUS_AUTH_MODE": ""}):
        settings = load(MINIMAL | JWT | mode | {"WEBSITE_SITE_NAME": "lucius"})
        assert settings.auth_mode == "jwt"
    assert settings.auth_audiences == ("api://lucius", "6f0e8d2c")
    assert (settings.auth_tenant_claim, settings.auth_all_tenants_role) == ("tenant_id", "orch:all-tenants")


def test_tenants_are_mapped_by_claims() -> None:
    """JSON of maps claims and their values; tenants are normalised as everywhere, values are not."""
    mapped = '{"azp": {"A-1": " Contoso "}, "https://lucius.example/org": {"x,y=z": "fabrikam"}, "groups": {}}'
    settings = load(MINIMAL | JWT | {"LUCIUS_AUTH_MODE": "jwt", "LUCIUS_AUTH_TENANTS": mapped})
    assert settings.auth_tenants == {
        "azp": {"A-1": "contoso"},
        "https://lucius.example/org": {"x,y=z": "fabrikam"},
    }
    assert load(MINIMAL).auth_tenants == {}


@pytest.mark.parametrize(
    ("mapped", "why"),
    [
        ("azp:a=contoso", "must be JSON"),
        ("[]", "must be JSON"),
        ('{"azp": "contoso"}', "must be JSON"),
        ('{"azp": {"a": null}}', "must be JSON"),
        ('{"azp": {"a": ".."}}', "must be JSON"),
        ('{"azp": {"a": "contoso\u200b"}}', "must be JSON"),
        ('{"azp": {"a": "contoso", "a": "fabrikam"}}', "must be JSON"),
        ('{"azp": {"04B07795-8ddb-461a-bbee-02f9e1bf7b46": "contoso"}}', "must not map the id of the Azure CLI"),
        ('{"appid": {"1950a258-227b-4e31-a9cf-717495945fc2": "contoso"}}', "must not map the id of Azure PowerShell"),
    ],
)
def test_a_mapping_that_cannot_hold_stops_the_start(mapped: str, why: str) -> None:
    """A misspelt mapping would show a user another tenant's jobs, or no user their own."""
    with pytest.raises(SettingsError, match=f"^LUCIUS_AUTH_TENANTS {why}"):
        load(MINIMAL | JWT | {"LUCIUS_AUTH_MODE": "jwt", "LUCIUS_AUTH_TENANTS": mapped})


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example/keys",
        "ftp://login.example",
        "login.example/keys",
        "https://",
        "https://a:b@c",
        "file:///k",
    ],
)
def test_keys_come_from_where_nobody_stands_between(url: str) -> None:
    """https, or http on loopback."""
    with pytest.raises(SettingsError, match="LUCIUS_AUTH_JWKS_URL"):
        load(MINIMAL | JWT | {"LUCIUS_AUTH_MODE": "jwt", "LUCIUS_AUTH_JWKS_URL": url})
    load(MINIMAL | JWT | {"LUCIUS_AUTH_MODE": "jwt", "LUCIUS_AUTH_JWKS_URL": "http://127.0.0.1:7080/keys"})


@pytest.mark.parametrize("mode", ["NONE", "off", "JWT", "nonejwt"])
def test_a_mode_that_is_none_of_the_two_stops_the_start(mode: str) -> None:
    """A slip of the pen does not open the app."""
    with pytest.raises(SettingsError, match="LUCIUS_AUTH_MODE must be one of none, jwt"):
        load(MINIMAL | JWT | {"LUCIUS_AUTH_MODE": mode})


def test_secrets_stay_out_of_repr() -> None:
    """A settings object in a log shows no key."""
    assert "secret" not in repr(load(MINIMAL))


def test_fractions_and_plain_http_only_locally() -> None:
    """Backoffs may be fractions; http references are for a laptop."""
    assert load(MINIMAL | {"LUCIUS_EXECUTION_BACKOFF_SECONDS": "0.2,1"}).timing_defaults.execution_backoffs == (0.2, 1)


def test_callback_keys_are_kept_in_their_order() -> None:
    """The first signs; spaces and a last comma do no harm, and no key is shown."""
    first, second = base64.b64encode(b"1" * 32).decode(), base64.b64encode(b"2" * 40).decode()
    settings = load(MINIMAL | {"LUCIUS_CALLBACK_KEYS": f"b:{first}, a:{second},", "LUCIUS_PUBLIC_URL": "https://x/y/"})
    assert settings.callback_keys == (("b", b"1" * 32), ("a", b"2" * 40))
    assert settings.public_url == "https://x/y"
    assert "1111" not in repr(settings)


def test_hosts_of_webhooks_have_one_spelling() -> None:
    """In lower case, with a port; the keys of webhooks are read as those of callbacks."""
    given = "Hooks.Corp.example, 10.1.2.3:8443,localhost:*, [0::1]:3000, Acme@Hooks.Corp.example:80,"
    key = base64.b64encode(b"1" * 32).decode()
    settings = load(MINIMAL | {"LUCIUS_WEBHOOK_HOSTS": given, "LUCIUS_WEBHOOK_KEYS": f"w1:{key}"})
    every = {"hooks.corp.example:443", "10.1.2.3:8443", "localhost:*", "[::1]:3000"}
    assert settings.webhook_hosts == every | {"acme@hooks.corp.example:80"}
    assert settings.webhook_keys == (("w1", b"1" * 32),)
    assert "1111" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LUCIUS_CALLBACK_KEYS", "MTEx"),
        ("LUCIUS_CALLBACK_KEYS", "a:MTEx"),
        ("LUCIUS_CALLBACK_KEYS", "a.b:" + "MTEx" * 11),
        ("LUCIUS_CALLBACK_KEYS", ",".join(["a:" + "MTEx" * 11] * 2)),
        ("LUCIUS_WEBHOOK_KEYS", "a:MTEx"),
        ("LUCIUS_WEBHOOK_HOSTS", "*"),
        ("LUCIUS_WEBHOOK_HOSTS", "*@hooks.example"),
        ("LUCIUS_WEBHOOK_HOSTS", "https://hooks.example"),
        ("LUCIUS_WEBHOOK_HOSTS", "hooks.example,10.0.0.0/8"),
        ("LUCIUS_PUBLIC_URL", "lucius.example"),
        ("LUCIUS_PUBLIC_URL", "ftp://lucius.example"),
    ],
)
def test_wrong_callback_settings_are_named_and_not_shown(name: str, value: str) -> None:
    """Too short, twice, without an id, or no address: the start names the setting and keeps the secret."""
    with pytest.raises(SettingsError, match=name) as wrong:
        load(MINIMAL | {name: value})
    assert "MTEx" not in str(wrong.value)


@pytest.mark.parametrize("name", ["LUCIUS_TABLE_ENDPOINT", "LUCIUS_BLOB_ENDPOINT", "LUCIUS_PUBLIC_URL"])
@pytest.mark.parametrize(
    "value",
    ["http://stled.table.core.windows.net", "http://10.0.0.4:10002/a", "https://user@x.example", "https://:443"],
)
def test_an_address_that_gets_tokens_is_trusted(name: str, value: str) -> None:
    """The app's token is sent to its stores, and callback tokens to its own address: by https, or on this machine."""
    with pytest.raises(SettingsError) as wrong:
        load(MINIMAL | {name: value})
    expected = (f"{name} must be an https URL (http on loopback only)", f"{name} must be an http or https URL")
    assert [line for line in str(wrong.value).splitlines() if line.strip(" -").startswith(expected)]


def test_an_invalid_endpoint_is_not_called_missing() -> None:
    with pytest.raises(SettingsError) as wrong:
        load(MINIMAL | {"LUCIUS_TABLE_CONNECTION": "", "LUCIUS_TABLE_ENDPOINT": "http://stled.table.core.windows.net"})
    assert "LUCIUS_TABLE_ENDPOINT must be an https URL" in str(wrong.value)
    assert "is not set" not in str(wrong.value)


def test_the_address_of_a_laptop_may_be_by_http() -> None:
    for value in ("http://127.0.0.1:7071", "http://localhost:7071/", "http://[::1]:7071", "https://lucius.example.com"):
        assert load(MINIMAL | {"LUCIUS_PUBLIC_URL": value}).public_url == value.rstrip("/")


@pytest.mark.parametrize(("days", "kept"), [("", timedelta(days=30)), ("0.5", timedelta(hours=12)), ("0", None)])
def test_the_workspace_is_kept_for_days_or_for_ever(days: str, kept: timedelta | None) -> None:
    """0 is for ever, as in the template."""
    assert load(MINIMAL | {"LUCIUS_WORKSPACE_DAYS": days}).retention.kept == kept


@pytest.mark.parametrize("name", ["LUCIUS_WORKSPACE_DAYS", "LUCIUS_FEED_DAYS"])
@pytest.mark.parametrize("days", ["-1", "never", "36501", "nan"])
def test_days_that_are_none_stop_the_start(name: str, days: str) -> None:
    """Neither a day before now nor one that no clock has."""
    with pytest.raises(SettingsError, match=f"{name} must be"):
        load(MINIMAL | {name: days})


@pytest.mark.parametrize(
    ("connection", "uri"),
    [
        ("AccountName=acc;AccountKey=k;EndpointSuffix=core.windows.net", "https://acc.blob.core.windows.net/workspace"),
        ("BlobEndpoint=http://127.0.0.1:9/acc;AccountName=acc", "http://127.0.0.1:9/acc/workspace"),
    ],
)
def test_workspace_follows_the_blob_account(connection: str, uri: str) -> None:
    """Attempts get their folders in the configured account."""
    assert load(MINIMAL | {"LUCIUS_BLOB_CONNECTION": connection}).workspace_uri == uri


def test_a_store_that_cannot_be_reached_by_its_connection_stops_the_start() -> None:
    """A connection string of App Configuration that lacks a part is named, without its secret."""
    with pytest.raises(SettingsError, match=r"LUCIUS_APPCONFIG_CONNECTION must have the form Endpoint=") as wrong:
        load(MINIMAL | {"LUCIUS_APPCONFIG_CONNECTION": "Endpoint=https://store.azconfig.io;Secret=hidden"})
    assert "hidden" not in str(wrong.value)


@pytest.mark.parametrize(
    ("name", "older", "field", "value"),
    [
        ("LUCIUS_STORAGE_BACKEND", "table", "storage_backend", "tables"),
        ("LUCIUS_STORAGE_BACKEND", "ledger", "storage_backend", "tables"),
        ("LUCIUS_DEFAULT_MODE", "SAFE", "default_mode", "DEFAULT"),
    ],
)
def test_an_older_value_is_taken_as_what_it_stands_for(name: str, older: str, field: str, value: str) -> None:
    """A configuration of an earlier design starts; one with an unknown value does not."""
    assert getattr(load(MINIMAL | {name: older}), field) == value
    with pytest.raises(SettingsError, match=f"{name} must be one of"):
        load(MINIMAL | {name: older.swapcase()})


def test_settings_that_change_nothing_are_known_with_what_replaces_each() -> None:
    """One that is empty is not set; no setting is both read and not."""
    settings = load(MINIMAL | {"LUCIUS_JOBS_TABLE": "jobs", "LUCIUS_TEMPORAL_ADDRESS": " ", "LUCIUS_MAX_ATTEMPTS": "5"})
    assert settings.not_read == (("LUCIUS_JOBS_TABLE", NOT_READ["LUCIUS_JOBS_TABLE"]),)
    assert load(MINIMAL).not_read == ()
    assert not NOT_READ.keys() & {each.name for each in SETTINGS}


@pytest.mark.parametrize("value", ["0", "-1", "inf", "nan", "4000000000", "a day"])
def test_a_longest_time_is_one(value: str) -> None:
    """No job could be created with another value, or with one beyond the range of instants."""
    for name in ("LUCIUS_ATTEMPT_MAX_SECONDS", "LUCIUS_JOB_TOTAL_TIMEOUT_SECONDS"):
        with pytest.raises(SettingsError, match=f"{name} must be"):
            load(MINIMAL | {name: value})


TABLES = [f"LUCIUS_{name}_TABLE" for name in ("LEDGER", "INDEX", "TENANTS", "GATES", "REJECTED", "FEED")]
PREFIX, SUBSCRIPTION = "LUCIUS_SERVICEBUS_REPLY_PREFIX", "LUCIUS_SERVICEBUS_REPLY_SUBSCRIPTION"
ACCOUNT = "https://stdoc.blob.core.windows.net"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((table, "lucius_ledger") for table in TABLES),
        *((TABLES[0], value) for value in ("lucius-ledger", "1lucius", "ab", "a" * 64, "Tables", "l\u00fccius", "a b")),
        *((PREFIX, value) for value in ("-replies", "replies p", "a" * 251, "replies#", "\u00fc")),
        *((SUBSCRIPTION, value) for value in ("a" * 51, "-app", "app-", "my/app", "my app", "app\u0660")),
        *(
            ("LUCIUS_WORKSPACE_URI", f"{ACCOUNT}/{value}")
            for value in ("", "work_space", "Workspace", "ab", "a--b", "-ab")
        ),
        ("LUCIUS_WORKSPACE_URI", f"{ACCOUNT}/workspace?sv=1"),
        ("LUCIUS_WORKSPACE_URI", "workspace"),
    ],
)
def test_a_name_that_azure_does_not_take_stops_the_start(name: str, value: str) -> None:
    """With one line, and not at the first job."""
    with pytest.raises(SettingsError, match=f"^{name} must ") as refused:
        load(MINIMAL | {name: value})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("name", "other"), [*itertools.combinations(TABLES, 2)])
def test_two_settings_name_no_one_table(name: str, other: str) -> None:
    """A tenant `incidents` would read those of all tenants in its own partition. Azure compares names without case."""
    with pytest.raises(
        SettingsError, match=f"^{other} and {name} name the same table; set a different table for each$"
    ):
        load(MINIMAL | {name: "Lucius", other: "luciuS"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((table, value) for table in TABLES for value in ("abc", "Lucius2Ledger", "a" * 63)),
        *((PREFIX, value) for value in ("r", "team/replies-p", "a" * 250)),
        *((SUBSCRIPTION, value) for value in ("a", "Lucius.invoker_2", "a" * 50)),
        *(("LUCIUS_WORKSPACE_URI", f"{ACCOUNT}/{value}") for value in ("work-space-2", "abc/", "a" * 63)),
    ],
)
def test_a_name_that_azure_takes_starts(name: str, value: str) -> None:
    """At the bounds of its rules."""
    load(MINIMAL | {name: value})
