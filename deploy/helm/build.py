"""The chart's templates from deploy/kubernetes: `python deploy/helm/build.py`.

Each template is the text of a manifest with its comments, in which values take the place of what a site sets. What is
replaced must be there, as often as it says: a manifest that changes otherwise is an error here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

HERE = Path(__file__).parent
SOURCES = HERE.parent / "kubernetes"
TEMPLATES_FOLDER = HERE / "gpuledger" / "templates"
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PriorityClass"}
KEPT = {"CustomResourceDefinition", "PersistentVolumeClaim"}
"""What `helm uninstall` leaves: with its CRD every ElasticJob would go."""

Edit = Callable[[str], str]


class BuildError(Exception):
    """A manifest is not as this script expects it."""


def put(old: str, new: str, times: int = 1) -> Edit:
    """Replaces a text that is there so many times."""

    def edit(text: str) -> str:
        if (found := text.count(old)) != times:
            raise BuildError(f"{old!r} is there {found} times, not {times}")
        return text.replace(old, new)

    return edit


def line(start: str, new: str, times: int = 1) -> Edit:
    """Replaces whole lines that begin so, after their indentation; `new` has theirs."""

    def edit(text: str) -> str:
        pattern = re.compile(rf"^( *){re.escape(start)}.*\n", re.M)
        if (found := len(pattern.findall(text))) != times:
            raise BuildError(f"{found} lines begin with {start!r}, not {times}")
        return pattern.sub(lambda match: _indented(match[1], new), text)

    return edit


def after(start: str, new: str) -> Edit:
    """Adds lines below the one that begins so."""

    def edit(text: str) -> str:
        match = _only(rf"^( *){re.escape(start)}.*\n", text)
        return text[: match.end()] + _indented(match[1], new) + text[match.end() :]

    return edit


def before(start: str, new: str) -> Edit:
    """Adds lines above the one that begins so."""

    def edit(text: str) -> str:
        match = _only(rf"^( *){re.escape(start)}.*\n", text)
        return text[: match.start()] + _indented(match[1], new) + text[match.start() :]

    return edit


def only_if(value: str, kind: str, name: str) -> Edit:
    """Puts an object under a condition."""

    def edit(text: str) -> str:
        parts = re.split(r"^---\n", text, flags=re.M)
        head = re.compile(rf"^kind: {kind}\nmetadata:\n  name: {re.escape(name)}\n", re.M)
        found = [number for number, part in enumerate(parts) if head.search(part)]
        if len(found) != 1:
            raise BuildError(f"{len(found)} objects are a {kind} {name}, not 1")
        parts[found[0]] = f"{{{{- if {value} }}}}\n{parts[found[0]]}{{{{- end }}}}\n"
        return "---\n".join(parts)

    return edit


def _only(pattern: str, text: str) -> re.Match[str]:
    found = list(re.finditer(pattern, text, re.M))
    if len(found) != 1:
        raise BuildError(f"{len(found)} lines match {pattern!r}, not 1")
    return found[0]


def _indented(indent: str, text: str) -> str:
    return "".join(f"{indent}{one}\n" if one else "\n" for one in text.splitlines())


def metadata(text: str) -> str:
    """Namespaces and labels, as Kustomize puts them."""
    parts = re.split(r"^---\n", text, flags=re.M)
    return "---\n".join(_metadata(part) for part in parts)


def _metadata(part: str) -> str:
    kind = _only(r"^kind: (\w+)\n", part)[1]
    match = _only(r"^metadata: \{name: ([\w.-]+)(?:, labels: \{([^}]*)\})?\}\n", part)
    lines = ["metadata:", f"  name: {match[1]}"]
    if kind not in CLUSTER_WIDE:
        lines.append("  namespace: {{ .Release.Namespace }}")
    if kind in KEPT:
        lines.append("  annotations: {helm.sh/resource-policy: keep}")
    lines.append("  labels:")
    lines += [f"    {one}" for one in (match[2] or "").split(", ") if one]
    lines.append('    {{- include "gpuledger.labels" . | nindent 4 }}')
    part = part[: match.start()] + "\n".join(lines) + "\n" + part[match.end() :]
    # Of pod templates and volume claim templates, which never change: without the chart's version.
    part = re.sub(
        r"^( *(?:metadata: \{)?labels: \{)(app\.kubernetes\.io/name: [\w-]+)\}",
        r"\1\2, app.kubernetes.io/part-of: gpuledger}",
        part,
        flags=re.M,
    )
    part = part.replace(
        "- metadata: {name: store}", "- metadata: {name: store, labels: {app.kubernetes.io/part-of: gpuledger}}"
    )
    return re.sub(r"(kind: ServiceAccount, .*, namespace: )gpuledger\}", r"\1{{ .Release.Namespace | quote }}}", part)


def literal(text: str) -> str:
    """Without what Helm would take for its own."""
    if "{{" in text:
        raise BuildError("it has {{, which Helm would evaluate")
    return text


def resources(program: str) -> Edit:
    return line("resources: {requests: {cpu:", f"resources: {{{{- toYaml .Values.{program}.resources | nindent 12 }}}}")


def image(kind: str) -> Edit:
    return line(
        f"image: gpuledger-{kind}",
        f"""\
image: {{{{ include "gpuledger.image" (dict "of" .Values.image.{kind} "root" $) | quote }}}}
{{{{- with .Values.image.pullPolicy }}}}
imagePullPolicy: {{{{ . }}}}
{{{{- end }}}}""",
    )


def scheduled(program: str) -> str:
    return f'{{{{- include "gpuledger.scheduling" (dict "of" .Values.{program} "root" $) | nindent 6 }}}}'


def storage(program: str, default: str) -> Edit:
    """Of the only claim in a manifest."""
    sized = put(f"storage: {default}", f"storage: {{{{ .Values.{program}.storage.size | quote }}}}")
    classed = before(
        "resources: {requests: {storage:",
        f"""\
{{{{- with .Values.{program}.storage.className }}}}
storageClassName: {{{{ . | quote }}}}
{{{{- end }}}}""",
    )
    return lambda text: sized(classed(text))


def restarted_by(program: str, settings: str) -> Edit:
    """Pods that have no annotations yet are renewed with their settings."""
    labels = f"labels: {{app.kubernetes.io/name: gpuledger-{program}, app.kubernetes.io/part-of: gpuledger}}"
    return put(
        f"    metadata: {{{labels}}}\n",
        f"    metadata:\n      {labels}\n      annotations: {{checksum/settings: {{{{ {settings} | sha256sum }}}}}}\n",
    )


def rules(start: str, value: str) -> Edit:
    """Rules of a policy, from a list of values."""
    return line(start, _listed(value))


def below(comment: str, lines: int, value: str) -> Edit:
    """So many rules below a comment, from a list of values."""

    def edit(text: str) -> str:
        match = _only(rf"(?<=\n)( *){re.escape(comment)}.*\n((?: *- .*\n){{{lines}}})", text)
        return text[: match.start(2)] + _indented(match[1], _listed(value)) + text[match.end(2) :]

    return edit


def _listed(value: str) -> str:
    return f"{{{{- range .Values.networkPolicy.{value} }}}}\n- {{{{ toJson . }}}}\n{{{{- end }}}}"


CA = put("configMap: {name: gpuledger-ca,", "configMap: {name: {{ .Values.server.caConfigMap | quote }},")
URL = put("https://gpuledger.gpuledger.svc:8443", "https://gpuledger.{{ .Release.Namespace }}.svc:8443")
SETTINGS = put("secretName: gpuledger-settings,", "secretName: {{ .Values.server.existingSecret | quote }},")
CLUSTER = put("--cluster=c1", "--cluster={{ .Values.cluster }}")

SERVER: Sequence[Edit] = (
    put("  replicas: 1\n", '  replicas: {{ include "gpuledger.replicas" . }}\n'),
    restarted_by("server", 'list (include "gpuledger.senders" .) .Values.server.settings | toJson'),
    after("serviceAccountName: gpuledger-server", scheduled("server")),
    image("server"),
    line(
        "- {name: GPULEDGER_STORE, value:",
        """\
{{- if .Values.clickhouse.enabled }}
- {name: GPULEDGER_STORE, value: {{ .Values.clickhouse.url | quote }}}
- {name: GPULEDGER_STORE_PASSWORD_FILE, value: /etc/gpuledger-clickhouse/password}
- {name: GPULEDGER_SQL_USER, value: gpuledger_reader}
- {name: GPULEDGER_SQL_PASSWORD_FILE, value: /etc/gpuledger-clickhouse/reader}
- {name: GPULEDGER_SQL_AUDIT_USER, value: gpuledger_auditor}
- {name: GPULEDGER_SQL_AUDIT_PASSWORD_FILE, value: /etc/gpuledger-clickhouse/auditor}
{{- else }}
- {name: GPULEDGER_STORE, value: "chdb:///var/lib/gpuledger/store"}
{{- end }}""",
    ),
    put(
        "          livenessProbe:\n            httpGet: {path: /healthz,",
        "          # While ClickHouse is away a new process would help nobody.\n"
        "          livenessProbe:\n            httpGet: {path: "
        '{{ .Values.clickhouse.enabled | ternary "/ping" "/healthz" }},',
    ),
    resources("server"),
    before(
        "- {name: store, mountPath: /var/lib/gpuledger}",
        """\
{{- if .Values.clickhouse.enabled }}
- {name: clickhouse, mountPath: /etc/gpuledger-clickhouse, readOnly: true}
{{- end }}""",
    ),
    SETTINGS,
    put("secretName: gpuledger-tls,", "secretName: {{ .Values.server.tlsSecret | quote }},"),
    before(
        "- {name: settings, secret: {secretName:",
        """\
{{- if .Values.clickhouse.enabled }}
- {name: clickhouse, secret: {secretName: {{ .Values.clickhouse.existingSecret | quote }}, defaultMode: 0440}}
{{- end }}""",
    ),
    storage("server", "200Gi"),
)

WATCH: Sequence[Edit] = (
    after("serviceAccountName: gpuledger-watch", scheduled("watch")),
    image("server"),
    CLUSTER,
    URL,
    after(
        "- --ca-file=",
        "{{- if .Values.watch.kueue }}\n- --queues=kueue\n{{- end }}\n"
        "{{- if .Values.watch.volcano }}\n- --queues=volcano\n{{- end }}\n"
        "{{- range .Values.watch.extraArgs }}\n- {{ . | quote }}\n{{- end }}",
    ),
    resources("watch"),
    CA,
    storage("watch", "2Gi"),
)

AGENT: Sequence[Edit] = (
    line(
        'annotations: {prometheus.io/scrape: "true", prometheus.io/port: "9108"}',
        """\
annotations:
  checksum/settings: {{ include "gpuledger.agentSettings" . | sha256sum }}
  {{- if .Values.agent.scrapeAnnotations }}
  prometheus.io/scrape: "true"
  prometheus.io/port: "9108"
  {{- end }}""",
    ),
    line(
        'nodeSelector: {nvidia.com/gpu.present: "true"}',
        "{{- with .Values.agent.runtimeClassName }}\nruntimeClassName: {{ . | quote }}\n{{- end }}",
    ),
    line("tolerations: [{operator: Exists}]", scheduled("agent")),
    image("agent"),
    resources("agent"),
    CA,
)

OPERATOR: Sequence[Edit] = (
    restarted_by("operator", ".Values.operator.settings | toJson"),
    after("serviceAccountName: gpuledger-operator", scheduled("operator")),
    image("server"),
    CLUSTER,
    resources("operator"),
    after(
        "- --token-file=",
        "{{- if .Values.operator.gatedPods }}\n- --gated-pods\n{{- end }}\n"
        "{{- range .Values.operator.extraArgs }}\n- {{ . | quote }}\n{{- end }}",
    ),
    put("secretName: gpuledger-operator,", "secretName: {{ .Values.operator.existingSecret | quote }},"),
    storage("operator", "10Gi"),
)

RBAC: Sequence[Edit] = (
    after(
        "- {apiGroups: [resource.k8s.io], resources: [resourceslices], verbs: [list]}",
        """\
{{- if .Values.oldKubelet }}
- {apiGroups: [""], resources: [nodes/proxy], verbs: [get]}
{{- end }}""",
    ),
    *(
        only_if(f".Values.{program}.enabled", kind, f"gpuledger-{program}")
        for program in ("agent", "watch")
        for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    ),
)

NETWORK: Sequence[Edit] = (
    rules("- namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}", "serverFrom"),
    line("- namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}", ""),
    # A rule with an empty `from` would let everybody in.
    before("- ports: [{port: metrics}]", "{{- if .Values.networkPolicy.metricsFrom }}"),
    line(
        "from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]",
        "from: {{ toJson .Values.networkPolicy.metricsFrom }}\n{{- end }}",
    ),
    only_if(".Values.agent.enabled", "NetworkPolicy", "gpuledger-agent"),
)

EGRESS: Sequence[Edit] = (
    below("# The API server, sign-on", 3, "egress.server"),
    below("# The API server, and its node", 1, "egress.agent"),
    below("# The API server.", 1, "egress.watch"),
    below("# The API server; callbacks", 1, "egress.operator"),
    *(
        only_if(f".Values.{program}.enabled", "NetworkPolicy", f"gpuledger-{program}-egress")
        for program in ("agent", "watch", "operator")
    ),
)

MONITORING: Sequence[Edit] = (
    put(
        "credentials: {name: gpuledger-metrics,", "credentials: {name: {{ .Values.monitoring.existingSecret | quote }},"
    ),
    CA,
    put("serverName: gpuledger.gpuledger.svc", "serverName: gpuledger.{{ .Release.Namespace }}.svc"),
    only_if(".Values.agent.enabled", "PodMonitor", "gpuledger-agent"),
)

SENDERS: Sequence[Edit] = (
    put("account: gpuledger/", "account: {{ .Release.Namespace }}/", times=2),
    put("clusters: [c1]", "clusters: [{{ .Values.cluster | quote }}]", times=2),
    before("kubernetes:", "{{- if or .Values.agent.enabled .Values.watch.enabled }}"),
    before("# Each agent,", "{{- if .Values.agent.enabled }}"),
    after("nodes: own", "{{- end }}"),
    before("# Who was given what,", "{{- if .Values.watch.enabled }}"),
    after("inventory: true", "{{- end }}\n{{- end }}"),
)


class Template(NamedTuple):
    """name: below templates/.   sources: manifests below deploy/kubernetes.   condition: of all their objects."""

    name: str
    sources: tuple[str, ...]
    condition: str
    edits: Sequence[Edit]


OPERATOR_MANIFESTS = ("operator/rbac.yaml", "operator/operator.yaml")


def _crds() -> tuple[str, ...]:
    """The other manifests of the operator."""
    text = (SOURCES / "operator" / "kustomization.yaml").read_text(encoding="utf-8")
    named = (f"operator/{one}" for one in yaml.safe_load(text)["resources"])
    return tuple(one for one in named if one not in OPERATOR_MANIFESTS)


TEMPLATES = (
    Template("rbac.yaml", ("base/rbac.yaml",), "", RBAC),
    Template("server.yaml", ("base/server.yaml",), "", SERVER),
    Template("watch.yaml", ("base/watch.yaml",), ".Values.watch.enabled", WATCH),
    Template("agent.yaml", ("base/agent.yaml",), ".Values.agent.enabled", AGENT),
    Template("networkpolicy.yaml", ("base/networkpolicy.yaml",), ".Values.networkPolicy.enabled", NETWORK),
    Template("egress.yaml", ("components/egress/networkpolicy.yaml",), ".Values.networkPolicy.egress.enabled", EGRESS),
    Template(
        "disruption-budget.yaml",
        ("components/disruption-budget/budget.yaml",),
        ".Values.podDisruptionBudget.enabled",
        (before("apiVersion:", '{{- include "gpuledger.budgetFits" . }}'),),
    ),
    Template("monitoring.yaml", ("components/monitoring/monitors.yaml",), ".Values.monitoring.enabled", MONITORING),
    Template("old-api-server.yaml", ("components/old-api-server/rbac.yaml",), ".Values.oldApiServer", ()),
    *(
        Template(
            f"{scheduler}.yaml",
            (f"components/{scheduler}/rbac.yaml",),
            f"and .Values.watch.enabled .Values.watch.{scheduler}",
            (),
        )
        for scheduler in ("kueue", "volcano")
    ),
    Template(
        "maintenance.yaml",
        ("components/maintenance/pod.yaml",),
        ".Values.maintenance",
        (image("server"), SETTINGS),
    ),
    Template("operator-crds.yaml", _crds(), ".Values.operator.enabled", ()),
    Template("operator.yaml", OPERATOR_MANIFESTS, ".Values.operator.enabled", OPERATOR),
    Template(
        "gated-pods.yaml",
        ("components/gated-pods/rbac.yaml",),
        "and .Values.operator.enabled .Values.operator.gatedPods",
        (),
    ),
)
HELPERS = (
    ("_agent-settings.tpl", "base/agent-settings.yaml", "gpuledger.agentDefaults", (
        put("cluster: c1", "cluster: {{ .Values.cluster | quote }}"), URL,
    )),
    ("_senders.tpl", "base/senders.yaml", "gpuledger.senderAccounts", SENDERS),
)  # fmt: skip


def built() -> dict[str, str]:
    """The content of each template that is made here, by its name."""
    found = {}
    for template in TEMPLATES:
        text = "---\n".join(_source(path) for path in template.sources)
        text = _edited(template.name, text, (metadata, *template.edits))
        if template.condition:
            text = f"{{{{- if {template.condition} }}}}\n{text}{{{{- end }}}}\n"
        found[template.name] = _made_of(template.sources) + text
    for name, path, defined, edits in HELPERS:
        text = _edited(name, _source(path), edits)
        found[name] = f'{_made_of((path,))}{{{{- define "{defined}" -}}}}\n{text}{{{{- end }}}}\n'
    return found


def _source(path: str) -> str:
    return literal((SOURCES / path).read_text(encoding="utf-8"))


def _edited(name: str, text: str, edits: Sequence[Edit]) -> str:
    for edit in edits:
        try:
            text = edit(text)
        except BuildError as error:
            raise BuildError(f"{name}: {error}. Next: say in deploy/helm/build.py what takes its place") from None
    return text


def _made_of(paths: Sequence[str]) -> str:
    named = ", ".join(f"deploy/kubernetes/{path}" for path in paths)
    return f"{{{{- /* Made of {named} by deploy/helm/build.py: change those. */ -}}}}\n"


def main() -> int:
    for name, text in built().items():
        (TEMPLATES_FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
