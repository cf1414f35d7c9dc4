"""One function of the app, as its metadata declares it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Binding:
    """One binding of `function.json`; texts are resolved (`%SETTING%`) in `fields`."""

    type: str
    name: str
    direction: str
    fields: Mapping[str, Any]

    @property
    def service(self) -> str:
        """The Azure service behind it, as its connection is looked up for: `serviceBus`, `blob`, `queue`, `table`."""
        return self.type.removesuffix("Trigger")

    @property
    def connection(self) -> str:
        """The name of its connection; storage bindings may leave it out."""
        return self.text("connection") or ("ServiceBus" if self.service == "serviceBus" else "Storage")

    def text(self, key: str) -> str | None:
        value = self.fields.get(key)
        return value if isinstance(value, str) and value else None


@dataclass(frozen=True, slots=True)
class Function:
    """`plain` are inputs that get the bare value, by the type they are annotated with. `may_return` is false for a
    function without a binding that its return value could go to."""

    name: str
    call: Callable[..., Any]
    is_async: bool
    trigger: Binding
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    plain_inputs: Mapping[str, type]
    takes_context: bool
    may_return: bool
    retry: Mapping[str, Any] | None

    @property
    def returns(self) -> Binding | None:
        """The binding of the return value."""
        return next((one for one in self.outputs if one.name == "$return"), None)

    @property
    def has_expressions(self) -> bool:
        """Some binding is filled in from what triggered the function."""
        bindings = (*self.inputs, *self.outputs)
        return any("{" in value for one in bindings for value in one.fields.values() if isinstance(value, str))
