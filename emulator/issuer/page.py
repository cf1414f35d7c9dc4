"""The page on which a developer chooses the tenant, the scopes, the roles and the lifetime of a token."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape

from emulator.issuer.authorization import PARAMETERS, SignIn

#: scopes that a client can request for its user
SCOPES = {
    "orch:read": "read jobs, runs, events, incidents, bulk operations, quotas, usage and protocols",
    "orch:operate": "submit, control, redrive and replay jobs, run bulk operations, and close incidents",
    "orch:quota": "hold and throttle quotas; with orch:all-tenants:operate, change limits, reset breakers, admit jobs",
    "orch:audit": "read signed heads, anchors and public keys",
}
#: roles that an administrator of a directory assigns
ROLES = {
    "orch:admin": "use webhooks, rejected messages and admin routes",
    "orch:all-tenants:read": "read the objects of every tenant",
    "orch:all-tenants:operate": "submit for every tenant, and change every tenant's objects",
}
_STYLE = """
:root{color-scheme:light dark}
body{margin:0;min-height:100vh;display:grid;place-items:center;font:15px/1.5 system-ui,sans-serif;
background:light-dark(#f4f5f7,#101217);color:light-dark(#1b1f27,#e7e9ee)}
main{box-sizing:border-box;width:min(30rem,100vw - 2rem);margin:1rem;padding:2rem;border-radius:12px;
background:light-dark(#fff,#191c23);border:1px solid light-dark(#dfe2e8,#2c313b)}
h1{font-size:18px;margin:0 0 4px}p{margin:0 0 16px;color:light-dark(#5a6170,#a3aab8)}
fieldset{border:0;margin:16px 0 0;padding:0}legend{padding:0;font-weight:600}
label{display:block;margin-top:8px}fieldset label{padding-left:1.6em;text-indent:-1.6em}
input:not([type=checkbox]){box-sizing:border-box;width:100%;padding:8px;font:inherit;
border:1px solid light-dark(#aab0bd,#4b5261);border-radius:6px;background:transparent;color:inherit}
code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}
div{display:flex;gap:8px;margin-top:24px}button{flex:1;padding:8px 12px;font:inherit;border-radius:6px;cursor:pointer;
border:1px solid light-dark(#aab0bd,#4b5261);background:transparent;color:inherit}
button.main{background:#4338ca;border-color:#4338ca;color:#fff}
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
#: `form-action` is absent on purpose: Chromium applies it to the redirect that follows the form
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    # the form's `Origin` must name this page
    "Referrer-Policy": "same-origin",
}


def authorize_page(sign_in: SignIn, request: Mapping[str, str], lifetime_s: int) -> str:
    """Returns the sign-in page. `request` has the parameters of the authorization request. The form repeats the known
    parameters.
    """
    repeated = {name: request[name] for name in PARAMETERS if name in request}
    hidden = "".join(f'<input type="hidden" name="{name}" value="{escape(value)}">' for name, value in repeated.items())
    # `api://.../.default` of Entra ID stands for every scope
    requested = sign_in.scopes & SCOPES.keys() or SCOPES.keys()
    scopes = "".join(_box("granted_scope", name, text, name in requested) for name, text in SCOPES.items())
    roles = "".join(_box("role", name, text, False) for name, text in ROLES.items())
    return _document(
        f"""<h1>Local token issuer</h1>
<p><code>{escape(sign_in.client)}</code> at <code>{escape(sign_in.redirect)}</code> requests a token.</p>
<form method="post" action="authorize">{hidden}
<label>Tenant<input name="tenant" value="demo" autocomplete="off" spellcheck="false"></label>
<fieldset><legend>Scopes</legend>{scopes}</fieldset>
<fieldset><legend>Roles</legend>{roles}</fieldset>
<label>Lifetime in seconds<input name="expires_in" inputmode="numeric" value="{lifetime_s}"></label>
<div><button class="main">Sign in</button><button name="deny" value="yes">Cancel</button></div>
</form>"""
    )


def refusal_page(reason: str) -> str:
    """Returns the page that shows the reason why the issuer refuses a sign-in."""
    return _document(f"<h1>This sign-in is not possible</h1><p>{escape(reason)}.</p>")


def _box(name: str, value: str, text: str, checked: bool) -> str:
    mark = " checked" if checked else ""
    return f'<label><input type="checkbox" name="{name}" value="{value}"{mark}> <code>{value}</code> {text}</label>'


def _document(body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sign in</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main>{body}</main></body></html>"
    )
