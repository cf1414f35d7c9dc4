"""Parses OTLP protobuf, without sockets (https://opentelemetry.io/docs/specs/otlp/#otlphttp)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

Scalar = str | int | float | bool
Attributes = Mapping[str, Scalar]

#: maximum characters of the name of a span, and of the key or value of an attribute; a longer text is cut
MAX_TEXT = 2048

_KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


class NotOtlp(ValueError):
    """The body is not an OTLP protobuf message."""


@dataclass(frozen=True)
class Span:
    """One span. Ids are in hex, times are in ns since 1970, and `parent_id` of a root is ""."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: str
    service: str
    start_ns: int
    end_ns: int
    attributes: Attributes
    #: linked spans: (trace id, span id)
    links: tuple[tuple[str, str], ...]
    failed: bool


@dataclass(frozen=True)
class Point:
    """The newest value of one metric with one set of attributes. `value` of a histogram is the sum."""

    name: str
    kind: str
    unit: str
    service: str
    attributes: Attributes
    value: float
    #: histograms only: number of values
    count: int | None


def read_spans(body: bytes) -> list[Span]:
    """Reads the spans of a trace export. Omits spans whose id or trace id has a wrong length. Raises NotOtlp for a body
    that is not OTLP.
    """
    request = ExportTraceServiceRequest()
    _parse(request, body)
    return [
        _span(span, _service(of_resource.resource.attributes))
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
        if len(span.trace_id) == 16 and len(span.span_id) == 8
    ]


def read_points(body: bytes) -> list[Point]:
    """Reads the sums, gauges and histograms of a metrics export. Omits other kinds. Raises NotOtlp for a body that is
    not OTLP.
    """
    request = ExportMetricsServiceRequest()
    _parse(request, body)
    return [
        point
        for of_resource in request.resource_metrics
        for of_scope in of_resource.scope_metrics
        for metric in of_scope.metrics
        for point in _points(metric, _service(of_resource.resource.attributes))
    ]


def _parse(request: ExportTraceServiceRequest | ExportMetricsServiceRequest, body: bytes) -> None:
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise NotOtlp(str(error)) from None


def _span(span: trace_pb2.Span, service: str) -> Span:
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name[:MAX_TEXT],
        kind=_KINDS.get(span.kind, "internal"),
        service=service,
        start_ns=span.start_time_unix_nano,
        end_ns=max(span.end_time_unix_nano, span.start_time_unix_nano),
        attributes=_attributes(span.attributes),
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
    )


def _points(metric: metrics_pb2.Metric, service: str) -> Iterator[Point]:
    kind = metric.WhichOneof("data")
    if kind in ("sum", "gauge"):
        for number in getattr(metric, kind).data_points:
            value = number.as_int if number.WhichOneof("value") == "as_int" else number.as_double
            point_kind = "counter" if kind == "sum" else "gauge"
            yield Point(metric.name, point_kind, metric.unit, service, _attributes(number.attributes), value, None)
    elif kind == "histogram":
        for spread in metric.histogram.data_points:
            attributes = _attributes(spread.attributes)
            yield Point(metric.name, kind, metric.unit, service, attributes, spread.sum, spread.count)


def _service(attributes: Iterator[KeyValue] | object) -> str:
    return str(_attributes(attributes).get("service.name", "unknown"))


def _attributes(pairs: object) -> dict[str, Scalar]:
    return {pair.key[:MAX_TEXT]: _scalar(pair.value) for pair in pairs}  # type: ignore[attr-defined]  # a repeated field


def _scalar(value: AnyValue) -> Scalar:
    kind = value.WhichOneof("value")
    if kind in ("string_value", "int_value", "double_value", "bool_value"):
        scalar: Scalar = getattr(value, kind)
        return scalar[:MAX_TEXT] if isinstance(scalar, str) else scalar
    return str(value)[:MAX_TEXT]
