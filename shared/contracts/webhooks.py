"""Bodies of requests that make or change a webhook."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from shared.contracts.envelope import MAX_LABELS, Line, Word
from shared.contracts.quotas import whole

#: of one list of a filter
MAX_NAMES = 50
#: characters of an address, as `shared.access.webhook_addresses` has it
_MAX_URL = 2048

_Format = Literal["cloudevents", "slack", "teams"]
_Url = Annotated[str, Field(min_length=1, max_length=_MAX_URL, examples=["https://hooks.example.com/lucius"])]
_Description = Annotated[Line, Field(max_length=256, examples=["billing"])]
_Name = Annotated[Word, Field(min_length=1, max_length=128)]
_Names = Annotated[list[_Name], Field(min_length=1, max_length=MAX_NAMES)]


def _labelled(value: dict[str, str]) -> dict[str, str]:
    if not value:
        raise ValueError("must name a label; leave it out to let every job in")
    return value


_Labels = Annotated[
    dict[Annotated[Line, Field(max_length=128)], Annotated[Line, Field(max_length=512)]],
    # pydantic's schema has a pattern of names, and lets every other name in
    Field(max_length=MAX_LABELS, json_schema_extra={"minProperties": 1, "additionalProperties": False}),
    AfterValidator(_labelled),
]


class HookFilterBody(BaseModel):
    """Which events a webhook gets: those that fit every member which is there."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, json_schema_extra={"minProperties": 1}
    )

    # a default that the schema does not show: null would name nothing
    types: _Names = Field(default_factory=list)
    """Types of events: one of these."""
    job_types: _Names = Field(default_factory=list)
    """Request types: the event's job is of one of these."""
    labels: _Labels = Field(default_factory=dict)
    """The event's job has each of them, with this very value."""

    @model_validator(mode="after")
    def _not_empty(self) -> HookFilterBody:
        if not self.model_fields_set:
            raise ValueError("must name something; leave the filter out to let every event in")
        return self


class NewHook(BaseModel):
    """Where a tenant's events are posted to, which of them, and how they look."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    url: _Url
    """An https address at port 443 of a host with a name, or a listed one. It is never shown again."""
    format: _Format = "cloudevents"
    """The event itself; or a message for an incoming webhook of Slack, or for a workflow of Teams."""
    filter: HookFilterBody | None = None
    """Null: every event of the tenant but those of webhooks."""
    description: _Description = ""
    """In words, on one line."""
    after: Annotated[int, Field(ge=0, le=10**18), BeforeValidator(whole)] | None = None
    """The `sequence` of an event, as a number: those after it are delivered too, as far as they are kept; null: those
    from now on."""


class HookChange(BaseModel):
    """What is to be another; what is left out stays as it is."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, json_schema_extra={"minProperties": 1}
    )

    # a default that the schema does not show: what is left out has none
    url: _Url = Field(default_factory=str)
    """The new address."""
    format: _Format = Field(default_factory=lambda: "cloudevents")
    """The new format."""
    filter: HookFilterBody | None = None
    """The new filter, in the place of the whole old one; null: every event."""
    description: _Description = Field(default_factory=str)
    """In words, on one line."""
    enabled: StrictBool = Field(default_factory=lambda: True)
    """False: it gets no events, and those of this time never; true ends that."""

    @model_validator(mode="after")
    def _not_empty(self) -> HookChange:
        if not self.model_fields_set:
            raise ValueError("must change something")
        return self

    def changes(self) -> dict[str, Any]:
        """The members that were sent."""
        return {name: getattr(self, name) for name in self.model_fields_set}
