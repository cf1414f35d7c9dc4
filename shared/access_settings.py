"""Settings of access: callers and their tenants, keys, allowed references, and the hosts that LUCIUS calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from shared import setting_values as form
from shared.access.references import Retention
from shared.setting_values import setting


@dataclass(frozen=True)
class SignIn:
    """The sign-in of the dashboard's users."""

    issuer: str
    client_id: str
    scope: str


@dataclass(frozen=True, kw_only=True)
class AccessSettings:
    """The settings of callers, tenants, keys, allowed references and hosts, inherited by `shared.settings.Settings`."""

    workspace_uri: str = setting(
        "LUCIUS_WORKSPACE_URI",
        form.container_uri,
        help="URI of the blob container with a folder for each attempt. Default: container `workspace` of "
        "the account of LUCIUS_BLOB_ENDPOINT or LUCIUS_BLOB_CONNECTION",
    )
    #: None means no limit
    workspace_kept: timedelta | None = setting(
        "LUCIUS_WORKSPACE_DAYS",
        form.lifetime,
        "30",
        help="Retention of blobs in the workspace in days, from the last write. 0 means unlimited. The storage "
        "account deletes the blobs. The template's parameter `workspaceRetentionDays` sets this setting and the rule "
        "of the storage account",
    )
    public_url: str | None = setting(
        "LUCIUS_PUBLIC_URL",
        form.optional(lambda value: form.trusted_address(form.address(value))),
        help="Public URL of the app, https (http on loopback only). The API documents and the `dataschema` of "
        "public events contain this URL. If LUCIUS_CALLBACK_KEYS is set, directives contain this URL, too",
    )
    #: pairs (key id, secret); empty: no callbacks and no tickets
    callback_keys: tuple[tuple[str, bytes], ...] = setting(
        "LUCIUS_CALLBACK_KEYS",
        form.keys,
        help="Keys of callback tokens and stream tickets, `kid:base64key`, separated by commas. The first key signs, "
        "all keys verify. If unset, callbacks and stream tickets are disabled. Callbacks also require "
        "LUCIUS_PUBLIC_URL",
        secret=True,
    )
    audit_key: str | None = setting(
        "LUCIUS_AUDIT_KEY",
        form.optional(form.signing_key),
        help="Key that signs heads and anchors of histories (docs/guides/audit.md). Path of a PEM file with a private "
        "key on P-256, or `https://VAULT/keys/NAME` in Key Vault, by managed identity. Requires LUCIUS_EVENTS=feed or "
        "topic. If unset, no heads are recorded or signed",
    )
    #: None means the account with long strings of rows
    audit_blob_endpoint: str | None = setting(
        "LUCIUS_AUDIT_BLOB_ENDPOINT",
        form.optional(form.trusted_address),
        help="Blob endpoint of the storage account with the container `lucius-anchors`, for managed identity; https. "
        "Default: the account of LUCIUS_BLOB_ENDPOINT or LUCIUS_BLOB_CONNECTION",
    )
    #: pairs (key id, secret); empty: no webhooks
    webhook_keys: tuple[tuple[str, bytes], ...] = setting(
        "LUCIUS_WEBHOOK_KEYS",
        form.keys,
        help="Keys from which webhook secrets are derived, `kid:base64key`, separated by commas. New secrets use the "
        "first key. A secret keeps its key until a rotation. If unset, or if LUCIUS_EVENTS is `off`, webhooks are "
        "disabled",
        secret=True,
    )
    webhook_hosts: frozenset[str] = setting(
        "LUCIUS_WEBHOOK_HOSTS",
        form.hosts,
        help="Webhook hosts to allow in addition to public hosts at port 443: IP addresses, private hosts, "
        "other ports, or http. Format: `HOST` (port 443), `HOST:PORT` or `HOST:*`, separated by commas. "
        "`TENANT@` before a host restricts the host to one tenant. List only names whose DNS you control",
        tuning=True,
    )
    auth_mode: str = setting(
        "LUCIUS_AUTH_MODE",
        form.choice("none", "jwt"),
        "jwt",
        help="`jwt`, or `none` for local stacks. The app refuses `none` on Azure Functions, App "
        "Service, Container Apps and Kubernetes. The app also refuses `none` with `IDENTITY_ENDPOINT`, another "
        "`LUCIUS_AUTH_` setting, an endpoint or namespace for managed identity, or an https connection string",
    )
    auth_issuer: str = setting(
        "LUCIUS_AUTH_ISSUER", form.text, help="`iss` of callers' tokens, compared exactly. Required with `jwt`"
    )
    auth_audiences: tuple[str, ...] = setting(
        "LUCIUS_AUTH_AUDIENCE",
        form.texts,
        help="Accepted `aud` of callers' tokens, separated by commas. Required with `jwt`",
    )
    auth_jwks_url: str = setting(
        "LUCIUS_AUTH_JWKS_URL",
        lambda value: form.trusted_address(value) if value else "",
        help="URL of the issuer's keys (JWKS); https, or http on loopback. Required with `jwt`",
    )
    auth_tenant_claim: str = setting(
        "LUCIUS_AUTH_TENANT_CLAIM",
        form.text,
        "tenant_id",
        help="Claim with the caller's tenant, if neither LUCIUS_AUTH_TENANTS nor a role `tenant:NAME` names the tenant",
    )
    #: None if the request names the source of its job
    auth_source_claim: str | None = setting(
        "LUCIUS_AUTH_SOURCE_CLAIM",
        form.optional(form.text),
        help="Claim with the source of the caller's jobs. The claim overrides the source in the job request. If this "
        "setting is unset, or the token has no such claim, the request names the source",
        tuning=True,
    )
    auth_tenants: Mapping[str, Mapping[str, str]] = setting(
        "LUCIUS_AUTH_TENANTS",
        form.tenants,
        help='Tenants by values of claims, as JSON: `{"azp": {"CLIENT_ID": "contoso"}, "groups": {"GROUP_ID": '
        '"fabrikam"}}`',
    )
    auth_all_tenants_role: str = setting(
        "LUCIUS_AUTH_ALL_TENANTS_ROLE",
        form.text,
        "orch:all-tenants",
        help="Role over all tenants, in the claim `roles`. With the suffix `:read`, callers can read every tenant's "
        "objects. With `:operate`, callers can submit for every tenant and change every tenant's objects. Without a "
        "suffix the role allows both, in this release",
        tuning=True,
    )
    #: "": users of the dashboard enter a token
    dashboard_client_id: str = setting(
        "LUCIUS_DASHBOARD_CLIENT_ID",
        form.text,
        help="Client id of the dashboard at the issuer, for sign-in by authorization code with PKCE. The "
        "redirect URI of the client is `/v1/dashboard` of the app, with the type SPA. If unset, users paste a token",
    )
    dashboard_scope: str = setting(
        "LUCIUS_DASHBOARD_SCOPE",
        form.text,
        help="Scopes that the dashboard requests, separated by spaces. Default: `AUDIENCE/.default` with the first "
        "audience of LUCIUS_AUTH_AUDIENCE",
        tuning=True,
    )
    allowed_ref_schemes: frozenset[str] = setting(
        "LUCIUS_ALLOWED_REF_SCHEMES",
        form.names,
        help="Allowed URI schemes of references, separated by commas. Default: `https,s3,abfss`, outside Azure also "
        "`http`",
        tuning=True,
    )
    allowed_ref_hosts: frozenset[str] = setting(
        "LUCIUS_ALLOWED_REF_HOSTS",
        form.names,
        help="Allowed hosts of references: `host`, `host/container` or `host/container/prefix`, compared exactly "
        "except for case, separated by commas. `{tenant}` is the job's tenant. Add a port that differs from the "
        "scheme's default. Default: any host or, with the template, the tenant's folder in each container: "
        "`HOST/documents/{tenant}` and others",
        tuning=True,
    )

    @property
    def sign_in(self) -> SignIn | None:
        """Returns the dashboard's sign-in. Returns None if the dashboard's users enter a token, or need no token."""
        if self.auth_mode == "none" or not self.dashboard_client_id:
            return None
        scope = self.dashboard_scope or f"{self.auth_audiences[0]}/.default"
        return SignIn(self.auth_issuer, self.dashboard_client_id, scope)

    @property
    def retention(self) -> Retention:
        """Returns the retention of results in the workspace."""
        return Retention(self.workspace_uri, self.workspace_kept)
