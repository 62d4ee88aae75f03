"""Authenticates service account tokens through TokenReview, for the server that agents push to.

The node is the one that the token is bound to (`authentication.kubernetes.io/node-name`, from Kubernetes 1.30 on). An
older API server says which pod the token is bound to; then the pod is read, and its node counts if its UID is the one
in the token. For that the server's account needs `get` on pods in the senders' namespace.

Source: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/,
        https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-tokens
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from collectors.errors import CollectorError
from collectors.kubernetes.connection import Connection
from collectors.kubernetes.objects import Object, child, text
from ingest.prompt_client import PromptClient
from ingest.reviews import Account, ReviewError
from warehouse.connection_errors import reason

TIMEOUT_SECONDS = 5.0
PREFIX = "system:serviceaccount:"
EXTRA = "authentication.kubernetes.io/"


class TokenReviews:
    """Asks one API server; safe to use from several threads.

    audience: whom the tokens must be meant for, so that one that was sent to somebody else is of no use here.
    """

    def __init__(self, connection: Connection, audience: str) -> None:
        self._connection, self._audience = connection, audience
        self._client = PromptClient(
            TIMEOUT_SECONDS, base_url=connection.server, verify=connection.verify, follow_redirects=False
        )

    def review(self, token: str) -> Account | None:
        """Errors: ReviewError, which passes, if the API server cannot be asked."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._audience]},
        }
        answer = self._asked("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
        if answer.status_code not in (200, 201):
            raise self._away(f"TokenReview answers {answer.status_code}")
        status = child(self._document(answer), "status")
        if status.get("authenticated") is not True or self._audience not in _texts(status.get("audiences")):
            return None
        user = child(status, "user")
        name = text(user, "username")
        parts = name.removeprefix(PREFIX).split(":")
        if not name.startswith(PREFIX) or len(parts) != 2:
            return None
        node, why = self._node(parts[0], child(user, "extra"))
        return Account("/".join(parts), node, why)

    def _node(self, namespace: str, extra: Mapping[str, Any]) -> tuple[str, str]:
        """The node, or why there is none."""
        nodes = _texts(extra.get(f"{EXTRA}node-name"))
        if nodes:
            return (nodes[0], "") if len(nodes) == 1 else ("", "it names several")
        pods, uids = _texts(extra.get(f"{EXTRA}pod-name")), _texts(extra.get(f"{EXTRA}pod-uid"))
        if len(pods) != 1 or len(uids) != 1:
            return "", "it is bound to no pod"
        answer = self._asked("GET", f"/api/v1/namespaces/{namespace}/pods/{pods[0]}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return "", "its pod is gone"
        if answer.status_code == httpx.codes.FORBIDDEN:
            return "", f"this API server names no node, and its pods in {namespace} cannot be read"
        if answer.status_code != httpx.codes.OK:
            raise self._away(f"pods answer {answer.status_code}")
        pod = self._document(answer)
        if text(child(pod, "metadata"), "uid") != uids[0]:
            return "", "its pod is gone"
        node = text(child(pod, "spec"), "nodeName")
        return node, "" if node else "its pod is on no node yet"

    def _asked(self, method: str, path: str, body: Object | None = None) -> httpx.Response:
        try:
            bearer = self._connection.bearer()
            headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
            return self._client.request(method, path, json=body, headers=headers)
        except (httpx.HTTPError, CollectorError) as error:
            raise self._away(f"cannot be asked ({reason(error)})") from error

    def _document(self, answer: httpx.Response) -> Object:
        try:
            found = answer.json()
        except (ValueError, RecursionError) as error:
            raise self._away("does not answer in JSON") from error
        if not isinstance(found, dict):
            raise self._away("does not answer with an object")
        return found

    def _away(self, what: str) -> ReviewError:
        return ReviewError(f"kubernetes {self._connection.server}", what, "Send it again", passes=True)


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
