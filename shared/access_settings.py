"""Settings of access: callers and their tenants, allowed references, and the hosts that LUCIUS calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from shared import setting_values as form
from shared.access.references import Retention
from shared.setting_values import setting


@dataclass(frozen=True, kw_only=True)
class AccessSettings:
    """A part of `shared.settings.Settings`, which reads them."""

    workspace_uri: str = setting(
        "LUCIUS_WORKSPACE_URI",
        form.container_uri,
        help="Where attempts get their folders; default: container `workspace` of the blobs",
    )
    #: None: for ever
    workspace_kept: timedelta | None = setting(
        "LUCIUS_WORKSPACE_DAYS",
        form.lifetime,
        "30",
        help="Days after the last write of a blob in the workspace from which its store may delete it; 0: never. The "
        "template sets it, and the store's own rule, by its parameter `workspaceRetentionDays`",
    )
    public_url: str | None = setting(
        "LUCIUS_PUBLIC_URL",
        form.optional(lambda value: form.trusted_address(form.address(value))),
        help="The app's own address as callers and services reach it, by https (http on loopback only): in the API's "
        "documents and, with callback keys, in directives",
    )
    #: (key id, secret); empty: no callbacks and no tickets
    callback_keys: tuple[tuple[str, bytes], ...] = setting(
        "LUCIUS_CALLBACK_KEYS",
        form.keys,
        help="Keys of callback tokens, `kid:base64key` with commas between: the first signs, all verify; unset: no "
        "callbacks, and no tickets for streams",
        secret=True,
    )
    #: (key id, secret); empty: no webhooks
    webhook_keys: tuple[tuple[str, bytes], ...] = setting(
        "LUCIUS_WEBHOOK_KEYS",
        form.keys,
        help="Keys that the secrets of webhooks are made of, `kid:base64key` with commas between: the first makes new "
        "secrets, each goes on signing for those it made; unset: no webhooks",
        secret=True,
    )
    webhook_hosts: frozenset[str] = setting(
        "LUCIUS_WEBHOOK_HOSTS",
        form.hosts,
        help="Hosts that webhooks may go to although they are IP addresses, in a private network, or at another port "
        "than 443: `HOST`, `HOST:PORT` or `HOST:*`, with commas between, by https or http; `TENANT@HOST:PORT` for one "
        "tenant, else for every tenant. A name leads where its DNS says: list none whose DNS is not yours",
        tuning=True,
    )
    auth_mode: str = setting(
        "LUCIUS_AUTH_MODE",
        form.choice("none", "jwt"),
        "jwt",
        help="`jwt`, or on a laptop `none`, which is refused where anything else looks like a deployment",
    )
    #: needed with `jwt`, as the next two
    auth_issuer: str = setting(
        "LUCIUS_AUTH_ISSUER", form.text, help="`iss` of callers' tokens, exactly; needed with `jwt`, as the next two"
    )
    auth_audiences: tuple[str, ...] = setting(
        "LUCIUS_AUTH_AUDIENCE", form.texts, help="`aud` of callers' tokens; one of several, with commas between"
    )
    auth_jwks_url: str = setting(
        "LUCIUS_AUTH_JWKS_URL",
        lambda value: form.trusted_address(value) if value else "",
        help="Where the issuer publishes its keys; https, or http on loopback",
    )
    auth_tenant_claim: str = setting(
        "LUCIUS_AUTH_TENANT_CLAIM",
        form.text,
        "tenant_id",
        help="Claim that names the caller's LUCIUS tenant, where neither LUCIUS_AUTH_TENANTS nor a role does",
    )
    #: None: a job's source is what its request says
    auth_source_claim: str | None = setting(
        "LUCIUS_AUTH_SOURCE_CLAIM",
        form.optional(form.text),
        help="Claim whose text is the source of every job that its caller submits, whatever the request says; unset, "
        "or missing in the token: the request's",
        tuning=True,
    )
    auth_tenants: Mapping[str, Mapping[str, str]] = setting(
        "LUCIUS_AUTH_TENANTS",
        form.tenants,
        help='LUCIUS tenants by values of claims, as JSON: `{"azp": {"CLIENT_ID": "contoso"}, "groups": {"GROUP_ID": '
        '"fabrikam"}}`',
    )
    auth_all_tenants_role: str = setting(
        "LUCIUS_AUTH_ALL_TENANTS_ROLE",
        form.text,
        "orch:all-tenants",
        help="Value of `roles` for operators of all tenants: with `:read` behind it they see every tenant's jobs, with "
        "`:operate` they move them; alone, in this release, both",
        tuning=True,
    )
    allowed_ref_schemes: frozenset[str] = setting(
        "LUCIUS_ALLOWED_REF_SCHEMES",
        form.names,
        help="Schemes of references, with commas between; default: `https,s3,abfss`, and `http` outside Azure",
        tuning=True,
    )
    allowed_ref_hosts: frozenset[str] = setting(
        "LUCIUS_ALLOWED_REF_HOSTS",
        form.names,
        help="Hosts of references, `host/container` or `host/container/prefix`, matched exactly, with commas between; "
        "`{tenant}` stands for the tenant, a port other than the scheme's own belongs to the host; default: any; "
        "the template names the containers of its own account",
        tuning=True,
    )

    @property
    def retention(self) -> Retention:
        """Of results in the workspace."""
        return Retention(self.workspace_uri, self.workspace_kept)
