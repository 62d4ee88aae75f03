"""Connects and authenticates to the API server: with the pod's service account, or a kubeconfig file.

Source: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/,
        https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.errors import CollectorError
from collectors.kubernetes.objects import Object, child, items, text
from warehouse.written_files import read_yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KubernetesError(CollectorError):
    """The API cannot be used as configured: a file, a permission or an authentication method is missing."""


@dataclass(frozen=True, slots=True)
class Connection:
    """server: URL.   token_file: re-read, because a bound token is renewed about hourly.   verify: how the server's
    certificate is checked."""

    server: str
    token: str = ""
    token_file: Path | None = None
    verify: ssl.SSLContext | bool = True

    def bearer(self) -> str:
        """The token to send now; empty for none."""
        if self.token_file is None:
            return self.token
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise KubernetesError(str(self.token_file), f"the token cannot be read: {error.strerror}") from None


def find(kubeconfig: Path | None, context: str = "", environment: Mapping[str, str] = os.environ) -> Connection:
    """The connection that was asked for; without a file, the pod's own, then KUBECONFIG, then ~/.kube/config."""
    if kubeconfig is not None:
        return from_kubeconfig(kubeconfig, context)
    if environment.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").exists() and not context:
        return in_cluster(environment)
    named = environment.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = Path(named) if named else Path.home() / ".kube" / "config"
    if not path.exists():
        raise KubernetesError(
            "kubernetes", "no service account in this process and no kubeconfig", "Next: --kubeconfig FILE"
        )
    return from_kubeconfig(path, context)


def in_cluster(environment: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT) -> Connection:
    """Connects with the service account of the pod that this process runs in."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if ":" in host:
        host = f"[{host}]"
    try:
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    except OSError as error:
        raise KubernetesError(str(folder / "ca.crt"), f"not a CA file: {error.strerror or error}") from None
    return Connection(f"https://{host}:{port}", token_file=folder / "token", verify=context)


def from_kubeconfig(path: Path, context: str = "") -> Connection:
    """The cluster and user of a kubeconfig's context, by default its current one."""
    where = str(path)
    document = read_yaml(path, "a kubeconfig", "It has the keys contexts, clusters and users", KubernetesError)
    wanted = context or text(document, "current-context")
    if not wanted:
        raise KubernetesError(where, "has no current-context", "Next: --context NAME")
    chosen = _named(document, "contexts", wanted, where, "context")
    cluster = _named(document, "clusters", text(chosen, "cluster"), where, "cluster")
    user = _named(document, "users", text(chosen, "user"), where, "user") if text(chosen, "user") else {}
    for unusable in ("exec", "auth-provider"):
        if unusable in user:
            raise KubernetesError(
                where,
                f"user {text(chosen, 'user')!r} logs in with {unusable}, which is not run here",
                "Next: a service account's token (kubectl create token), as `token` or `tokenFile`",
            )
    if "username" in user:
        raise KubernetesError(where, "logs in with a password, which Kubernetes no longer takes", "Next: a token")
    if text(cluster, "tls-server-name") or text(cluster, "proxy-url"):
        raise KubernetesError(
            where, "tls-server-name and proxy-url are not supported", "Next: HTTPS_PROXY, or a matching server name"
        )
    token_file = text(user, "tokenFile")
    return Connection(
        text(cluster, "server").rstrip("/"),
        token=text(user, "token"),
        token_file=path.parent / token_file if token_file else None,
        verify=_tls(cluster, user, path),
    )


def _named(document: Any, kind: str, wanted: str, where: str, field: str) -> Object:
    for entry in items(document, kind):
        if entry.get("name") == wanted:
            return child(entry, field)
    raise KubernetesError(where, f"has no {field} {wanted!r}", f"It has: {_names(document, kind) or 'none'}")


def _names(document: Any, kind: str) -> str:
    return ", ".join(text(entry, "name") for entry in items(document, kind))


def _tls(cluster: Object, user: Object, path: Path) -> ssl.SSLContext | bool:
    where = str(path)
    try:
        authority = _content(cluster, "certificate-authority", path)
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify") is True:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = _content(user, "client-certificate", path), _content(user, "client-key", path)
        if certificate and key:
            # The ssl module reads certificates from files only.
            with tempfile.NamedTemporaryFile(prefix="gpuledger-", suffix=".pem") as file:
                file.write(certificate + b"\n" + key)
                file.flush()
                context.load_cert_chain(file.name)
    except (OSError, ValueError, binascii.Error) as error:
        raise KubernetesError(where, f"its certificates are unusable: {' '.join(str(error).split())}") from None
    return context


def _content(of: Object, field: str, path: Path) -> bytes:
    """A certificate or key: inline in base64, or in a file beside the kubeconfig."""
    if inline := text(of, f"{field}-data"):
        return base64.b64decode(inline, validate=True)
    return (path.parent / named).read_bytes() if (named := text(of, field)) else b""
