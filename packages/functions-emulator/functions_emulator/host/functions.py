"""A function of the app and its bindings, as its metadata declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Binding:
    """One binding. The texts in `fields` are resolved: `%SETTING%` is replaced."""

    type: str
    name: str
    direction: str
    fields: Mapping[str, Any]

    @property
    def service(self) -> str:
        """Returns the service of the binding's connection: `serviceBus`, `blob`, `queue` or `table`. For another
        binding, returns its type without the ending `Trigger`.
        """
        return self.type.removesuffix("Trigger")

    @property
    def connection(self) -> str:
        """Returns the name of the binding's connection. The default is the extension's default name."""
        return self.text("connection") or ("ServiceBus" if self.service == "serviceBus" else "Storage")

    def text(self, key: str) -> str | None:
        """Returns a field that is a non-empty string, else `None`."""
        value = self.fields.get(key)
        return value if isinstance(value, str) and value else None


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the app."""

    name: str
    call: Callable[..., Any]
    is_async: bool
    trigger: Binding
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    #: parameters annotated `str` or `bytes`, which get the plain value instead of the SDK's object
    plain_inputs: Mapping[str, type]
    takes_context: bool
    #: `True` if a binding takes the return value
    may_return: bool
    #: the retry policy as the SDK describes it
    retry: Mapping[str, Any] | None

    @property
    def returns(self) -> Binding | None:
        """Returns the binding of the return value."""
        return next((one for one in self.outputs if one.name == "$return"), None)

    @property
    def has_expressions(self) -> bool:
        """Returns True if an input or output has an expression like `{name}`, replaced from the trigger's data."""
        bindings = (*self.inputs, *self.outputs)
        return any("{" in value for one in bindings for value in one.fields.values() if isinstance(value, str))
