"""The commands of az that hooks, pipelines and the guide use, with the options that az 2.89 has for them.

`!` marks required options, `.` a folder; other options are refused, as by az.
"""

from __future__ import annotations

from typing import NoReturn

_GLOBAL = "query output subscription only-show-errors"

COMMANDS = {
    "account clear": "",
    "acr build": "registry! image! file build-arg .",
    "acr list": "",
    "acr repository show": "name! image!",
    "account get-access-token": "scope",
    "account set": "",
    "account show": "",
    "ad app create": "display-name! sign-in-audience",
    "ad app delete": "id!",
    "ad app federated-credential create": "id! parameters!",
    "ad app list": "filter show-mine",
    "ad app show": "id!",
    "ad signed-in-user show": "",
    "ad sp create": "id!",
    "ad sp show": "id!",
    "appconfig list-deleted": "",
    "appconfig kv set": "name auth-mode yes content-type key value",
    "bicep install": "version",
    "deployment sub what-if": "name location! parameters template-file validation-level result-format no-prompt"
    " exclude-change-types",
    "functionapp deployment source config-zip": "resource-group! name! src! build-remote",
    "functionapp list-flexconsumption-locations": "zone-redundant",
    "functionapp restart": "resource-group name",
    "group exists": "name!",
    "keyvault delete": "name",
    "keyvault list-deleted": "resource-type",
    "keyvault secret delete": "vault-name! name!",
    "keyvault secret list": "vault-name!",
    "keyvault secret set": "vault-name! name! file",
    "keyvault secret show": "vault-name! name!",
    "login": "",
    "provider list": "",
    "provider register": "namespace! wait",
    "provider show": "namespace!",
    "resource list": "resource-type",
    "resource show": "ids",
    "rest": "method url! headers body",
    "role assignment create": "assignee assignee-object-id assignee-principal-type role! scope! condition"
    " condition-version",
    "role assignment list": "all fill-principal-name",
    "role definition create": "role-definition!",
    "stack sub create": "name! location! parameters template-file action-on-unmanage! deny-settings-mode! yes",
    "stack sub delete": "name action-on-unmanage! yes",
    "stack sub show": "name",
    "stack-whatif sub create": "name! location! stack-id! parameters template-file action-on-unmanage!"
    " deny-settings-mode! retention-interval! no-pretty-print",
    "storage blob upload": "auth-mode overwrite account-name container-name name file",
    "version": "",
}


class Refused(Exception):
    """az ends with this line, and an exit code other than 0."""


def refuse(line: str) -> NoReturn:
    raise Refused(line)


def parse(arguments: list[str]) -> tuple[str, dict[str, str]]:
    """The command and its options. Raises Refused."""
    words = []
    rest = list(arguments)
    while rest and not rest[0].startswith("-"):
        words.append(rest.pop(0))
    command = " ".join(words)
    if command not in COMMANDS:
        refuse(f"'{command}' is misspelled or not recognized by the system.")
    declared = COMMANDS[command].split()
    known = {option.rstrip("!") for option in declared} | set(_GLOBAL.split())
    short = {"-o": "output", "-n": "name"}
    options: dict[str, str] = {}
    name = ""
    for word in rest:
        if word == "." and "." in declared:
            continue
        if word.startswith("-") and not word.startswith("- "):
            name = short.get(word, word.removeprefix("--"))
            if name not in known:
                refuse(f"unrecognized arguments: {word}")
            options[name] = ""
        else:
            options[name] = f"{options[name]} {word}".strip()
    lacking = [option for option in declared if option.endswith("!") and not options.get(option.rstrip("!"))]
    if lacking:
        refuse(f"the following arguments are required: --{lacking[0].rstrip('!')}")
    return command, options
