"""Reads single objects and short lists of the API server: with the kubeconfig's token or certificate, or, where it logs
in by a plugin (exec, as of clouds), through kubectl, which runs that."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from collectors.kubernetes.connection import Connection, KubernetesError, find
from collectors.kubernetes.contexts import namespace_of, usual
from collectors.kubernetes.objects import Object, items
from ingest.prompt_client import PromptClient
from warehouse.connection_errors import reason

TIMEOUT_SECONDS = 30.0
KUBECTL_SECONDS = 120.0
"""Longer: a plugin may ask a person to log in."""


class NotThere(KubernetesError):  # noqa: N818
    """404.   resource: it is not even served."""

    def __init__(self, where: str, what: str, resource: bool) -> None:
        super().__init__(where, what)
        self.resource = resource


class Forbidden(KubernetesError):  # noqa: N818
    """403: the user may not."""


class FieldConflict(KubernetesError):  # noqa: N818
    """409: another field manager has it."""


class Invalid(KubernetesError):  # noqa: N818
    """422: it takes no such object, or not in place of the one that is there."""


class Cluster:
    """The cluster of a kubeconfig's context.   namespace: of that context."""

    def __init__(self, kubeconfig: Path | None, context: str, environment: Mapping[str, str] = os.environ) -> None:
        self.namespace = namespace_of(kubeconfig, context, environment)
        self._flags = [
            *(["--kubeconfig", str(kubeconfig)] if kubeconfig else []),
            *(["--context", context] * bool(context)),
        ]
        self._connection: Connection | None = None
        self._client: PromptClient | None = None
        try:
            self._connection = find(kubeconfig, context, environment)
        except KubernetesError:
            self._kubectl = shutil.which("kubectl", path=environment.get("PATH"))
            if self._kubectl is None or not (kubeconfig or usual(environment)).exists():
                raise
            return
        self._client = PromptClient(
            TIMEOUT_SECONDS, base_url=self._connection.server, verify=self._connection.verify, follow_redirects=False
        )

    def get(self, path: str) -> Object:
        """Errors: NotThere, Forbidden, KubernetesError for whatever else it answers, or if it does not."""
        return self._asked(path) if self._client else self._by_kubectl(path)

    def apply(self, path: str, body: Object, manager: str, force: bool = False) -> None:
        """Server-side apply. Errors: FieldConflict where another manager has a field, unless it is to be overruled."""
        if self._client is None:
            flags = ["--server-side", f"--field-manager={manager}", *(["--force-conflicts"] if force else [])]
            self._run(path, ["apply", *flags, "-f", "-"], json.dumps(body))
            return
        query = urlencode({"fieldManager": manager, "force": str(force).lower()})
        # JSON is YAML.
        self._asked(f"{path}?{query}", "PATCH", json.dumps(body), "application/apply-patch+yaml")

    def list(self, path: str, **query: str) -> list[Mapping[str, Any]]:
        """All objects, in one answer."""
        return items(self.get(f"{path}?{urlencode(query)}" if query else path), "items")

    def _asked(self, path: str, method: str = "GET", body: str = "", content: str = "") -> Object:
        assert self._client is not None and self._connection is not None
        where = f"kubernetes {self._connection.server}"
        bearer = self._connection.bearer()
        try:
            headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
            headers |= {"Content-Type": content} if content else {}
            answer = self._client.request(method, path, headers=headers, content=body or None)
        except httpx.HTTPError as error:
            raise KubernetesError(where, f"cannot be asked ({reason(error)})", "Check: kubectl version") from error
        try:
            found = answer.json()
        except (ValueError, RecursionError):
            found = {}
        if answer.status_code == httpx.codes.NOT_FOUND:
            # Of what is not served it says no more than that a page is not found.
            raise NotThere(where, f"{path} is not there", not isinstance(found, dict) or found.get("kind") != "Status")
        message = str(found.get("message", "")) if isinstance(found, dict) else ""
        if answer.status_code in (httpx.codes.FORBIDDEN, httpx.codes.UNAUTHORIZED):
            raise Forbidden(where, message or f"refuses {path}", "Check: kubectl auth can-i --list")
        if answer.status_code == httpx.codes.CONFLICT:
            raise FieldConflict(where, message or f"refuses {path}")
        if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
            raise Invalid(where, message or f"refuses {path}")
        if not answer.is_success or not isinstance(found, dict) or not found:
            raise KubernetesError(where, f"answers {answer.status_code} to {path}: {message or 'no object'}")
        return found

    def _by_kubectl(self, path: str) -> Object:
        try:
            found = json.loads(self._run(path, ["get", "--raw", path]))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise KubernetesError("kubectl", f"answers {path} with no object")
        return found

    def _run(self, path: str, arguments: Sequence[str], stdin: str = "") -> str:
        assert self._kubectl is not None
        command = [self._kubectl, *self._flags, *arguments]
        try:
            done = subprocess.run(  # noqa: S603 - no shell
                command, input=stdin, capture_output=True, text=True, check=False, timeout=KUBECTL_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise KubernetesError(
                "kubectl", f"does not answer {path} within {KUBECTL_SECONDS:g} s", "Check: kubectl version"
            ) from None
        if done.returncode == 0:
            return done.stdout
        output = " ".join(done.stderr.split())
        if "(NotFound)" in output:
            raise NotThere("kubectl", f"{path} is not there", "could not find the requested resource" in output)
        if "(Forbidden)" in output or "(Unauthorized)" in output:
            raise Forbidden("kubectl", output)
        if "conflict" in output.lower():
            raise FieldConflict("kubectl", output)
        if " is invalid: " in output:
            raise Invalid("kubectl", output)
        raise KubernetesError("kubectl", output or f"exit {done.returncode}")
