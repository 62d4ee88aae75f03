"""OpenTelemetry's metrics over HTTP, protobuf or JSON: an export request becomes points.

A point's labels are its own attributes; of its resource's those that say where it is from. What a resource says of a
pod is who reports, and no holder; only a process metric that names no process, or the resource's own, is the resource's
pod's. Gauges and cumulative sums are read. Histograms and summaries are counted: nothing here reads them. Delta sums
are refused: what a lost request had is gone, and nobody would know.
Source: https://opentelemetry.io/docs/specs/otlp/ and .../specs/semconv/hardware/gpu/
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, DataPointFlags, Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from collectors.exporters.exposition import MOST_LABELS
from collectors.receivers.points import MalformedError, Point, Push, Target, Terms, labels_of
from collectors.receivers.wire import made, parts
from ingest.body import DOCUMENT_BYTES, TooLargeError

_RESOURCE_METRICS, _RESOURCE, _SCOPE_METRICS, _METRICS = 1, 1, 2, 2
"""Of ExportMetricsServiceRequest; of ResourceMetrics (resource, scope_metrics); of ScopeMetrics."""
_OF_RESOURCE = ("host.name", "host.id", "k8s.node.name")
_OF_POD = ("k8s.pod.uid", "k8s.pod.name", "k8s.namespace.name", "k8s.container.name")
_CLUSTER = "k8s.cluster.name"
_PROCESS = "process.pid"
DEVICE, PARTITION = "gpu.parent.uuid", "gpuledger.partition"
"""Labels that every point of a partition has, and no other: its device, and its own id."""

METRIC_BYTES = 1 << 20
"""Of one metric with all its points: a node's GPUs and their processes are some hundred."""
MOST_OBJECTS = 400_000
"""Of a document in JSON, as its braces tell."""

Attributes = dict[str, str]


def read(text: bytes, terms: Terms) -> Push:
    """Errors: MalformedError if it is no such request."""
    push = Push()
    groups = [part for number, part in parts(memoryview(text)) if number == _RESOURCE_METRICS and part is not None]
    if text and not groups:
        raise MalformedError("body", "it is not an ExportMetricsServiceRequest")
    for group in groups:
        _take_resource(push, group, terms)
    return push


def read_json(text: bytes, terms: Terms) -> Push:
    """Errors: MalformedError if it is no such request; TooLargeError."""
    if len(text) > DOCUMENT_BYTES:
        raise TooLargeError("body", f"a document of {len(text)} bytes: at most {DOCUMENT_BYTES}", "Send protobuf")
    if text.count(b"{") > MOST_OBJECTS:
        raise TooLargeError("body", f"more than {MOST_OBJECTS:,} objects", "Send fewer at once")
    request = ExportMetricsServiceRequest()
    try:
        json_format.Parse(text, request, ignore_unknown_fields=True, max_recursion_depth=40)
    except (json_format.ParseError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise MalformedError("body", f"no ExportMetricsServiceRequest in JSON ({str(error)[:200]})") from error
    if not text.lstrip().startswith(b"{") or not (request.resource_metrics or text.strip() == b"{}"):
        raise MalformedError("body", "it is not an ExportMetricsServiceRequest")
    misplaced = _no_object(json.loads(text), request.DESCRIPTOR)
    if misplaced is not None:
        raise MalformedError("body", f"{misplaced} is not an object")
    push = Push()
    for group in request.resource_metrics:
        source = _Source(_attributes(group.resource.attributes) or {}, terms)
        for scope in group.scope_metrics:
            for metric in scope.metrics:
                _take(push, metric, source, terms)
                push.check_room()
    return push


def _no_object(value: Any, of: Descriptor, name: str = "") -> str | None:
    """The first message that is a list or a text: the library reads those as messages without anything in them."""
    if not isinstance(value, dict):
        return name
    for key, inner in value.items():
        field = of.fields_by_camelcase_name.get(key) or of.fields_by_name.get(key)
        if field is not None and field.message_type is not None and inner is not None:
            for number, one in enumerate(inner) if field.is_repeated else ((None, inner),):
                at = f"{name}.{key}".removeprefix(".") + ("" if number is None else f"[{number}]")
                found = _no_object(one, field.message_type, at)
                if found is not None:
                    return found
    return None


def _take_resource(push: Push, text: memoryview, terms: Terms) -> None:
    """A ResourceMetrics: its resource may stand behind its metrics."""
    resource, scopes = Resource(), []
    for number, part in parts(text):
        if part is not None and number == _SCOPE_METRICS:
            scopes.append(part)
        elif part is not None and number == _RESOURCE:
            found = made(Resource, part)
            if found is None:
                raise MalformedError("body", "a resource that is invalid or too long")
            resource = found
    source = _Source(_attributes(resource.attributes) or {}, terms)
    for scope in scopes:
        for number, part in parts(scope):
            if number != _METRICS or part is None:
                continue
            metric = made(Metric, part, METRIC_BYTES)
            if metric is None:
                push.refused["not a metric, or too long"] += 1
            else:
                _take(push, metric, source, terms)
            push.check_room()


class _Source:
    """Where the points of a resource are from."""

    def __init__(self, resource: Attributes, terms: Terms) -> None:
        self._resource = resource
        self._labels = {name: resource[name] for name in _OF_RESOURCE if name in resource}
        node = resource.get("k8s.node.name") or resource.get("host.name") or resource.get("host.id", "")
        instance = "/".join(filter(None, (node, resource.get("service.instance.id", ""))))
        cluster = resource.get(_CLUSTER) or terms.cluster
        self.target = Target("otlp", cluster, resource.get("service.name", ""), instance)

    def labels(self, name: str, own: Attributes) -> Attributes | str:
        """All labels of a point, or why it cannot be used."""
        labels = {**self._labels, **own}
        labels.pop(DEVICE, None)
        of_process = name.startswith("process.gpu.")
        if of_process and own.get(_PROCESS) in (None, self._resource.get(_PROCESS)):
            labels |= {one: self._resource[one] for one in _OF_POD if one in self._resource and one not in own}
        hardware = own.get("hw.id", "")
        if hardware.startswith("MIG-") or own.get("hw.gpu.partition"):
            device = own.get(DEVICE) or own.get("hw.parent")
            if not device or not hardware:
                return "a partition that does not name its device"
            labels |= {DEVICE: device, PARTITION: hardware}
        return labels


def _take(push: Push, metric: Metric, source: _Source, terms: Terms) -> None:
    kind = metric.WhichOneof("data")
    points: Sequence[Any] = getattr(metric, kind).data_points if kind else ()
    push.check_room(len(points) if kind else 0)
    count = len(points)
    if not metric.name:
        push.refused["a metric without a name"] += max(1, count)
        return
    if not terms.wanted(metric.name) or kind not in ("gauge", "sum"):
        push.accepted["samples"] += count
        push.ignored["in no profile" if kind in ("gauge", "sum", None) else "no number, but a histogram"] += count
        return
    if (
        kind == "sum"
        and metric.sum.aggregation_temporality != AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    ):
        push.refused["a sum that is not cumulative"] += count
        return
    for point in points:
        _take_point(push, metric.name, point, source, terms)


def _take_point(push: Push, name: str, point: Any, source: _Source, terms: Terms) -> None:
    own = _attributes(point.attributes)
    if own is None:
        push.refused[f"an attribute that appears twice or has no name, or more than {MOST_LABELS}"] += 1
        return
    ts = (point.time_unix_nano + 500_000) // 1_000_000
    stale = bool(point.flags & DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK)
    value = point.WhichOneof("value")
    labels = source.labels(name, own)
    why = terms.why_not(source.target.cluster, ts)
    if not why and value is None and not stale:
        why = "a point without a value"
    if not why:
        labels = labels if isinstance(labels, str) else labels_of(labels.items(), len(labels), terms.reads)
        why = labels if isinstance(labels, str) else ""
    if why or isinstance(labels, str):
        push.refused[why] += 1
        return
    push.accepted["samples"] += 1
    push.points.append(Point(source.target, name, labels, ts, float(getattr(point, value)) if value else 0.0, stale))


def _attributes(given: Sequence[KeyValue]) -> Attributes | None:
    """Those that are texts, numbers and truths, as texts; None where one appears twice or has no name, or there are
    more than anybody has."""
    if len(given) > MOST_LABELS:
        return None
    found: Attributes = {}
    for key, text in _texts(given):
        if not key or key in found:
            return None
        found[key] = text
    return found


def _texts(given: Sequence[KeyValue]) -> Iterator[tuple[str, str]]:
    for one in given:
        kind = one.value.WhichOneof("value")
        if kind == "bool_value":
            yield one.key, "true" if one.value.bool_value else "false"
        elif kind in ("string_value", "int_value", "double_value"):
            yield one.key, str(getattr(one.value, kind))
        else:
            yield one.key, ""


def answer(push: Push) -> dict[str, Any]:
    """What became of it, as ExportMetricsServiceResponse has it."""
    if not push.refused:
        return {}
    why = "; ".join(f"{reason}: {count}" for reason, count in push.refused.most_common(5))
    return {"partialSuccess": {"rejectedDataPoints": str(push.refused.total()), "errorMessage": why}}
