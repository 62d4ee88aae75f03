"""A real etcd and kube-apiserver that can be killed, and asked as an administrator.

Found by KUBEBUILDER_ASSETS (a folder with etcd and kube-apiserver, the convention of envtest), or beside this checkout.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.conftest import REPO, SHARED
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_ports

PACKED = SHARED / "kubernetes" / "kube-apiserver.xz"
OWN = "gpuledger"
"""The namespace of what the manifests make."""
DEPLOY = REPO / "deploy" / "kubernetes"
ROLES = (DEPLOY / "base" / "rbac.yaml", DEPLOY / "operator" / "rbac.yaml")


def binaries() -> tuple[Path | None, Path | None]:
    """(etcd, kube-apiserver, perhaps packed); None for what is not there."""
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
    if (assets / "etcd").exists() and (assets / "kube-apiserver").exists():
        return assets / "etcd", assets / "kube-apiserver"
    etcd = shutil.which("etcd")
    return Path(etcd) if etcd else None, PACKED if PACKED.exists() else None


def missing() -> str:
    """Why there is no real API server; empty: there is."""
    etcd, server = binaries()
    if server is None:
        return "no kube-apiserver in KUBEBUILDER_ASSETS, nor beside the checkout"
    lacks = [name for name, there in (("etcd", etcd), ("openssl", shutil.which("openssl"))) if there is None]
    return f"a real kube-apiserver needs {', '.join(lacks)}" if lacks else ""


class ControlPlane:
    """etcd and an API server on loopback; nothing runs pods, and nobody binds them, but the test.

    kubeconfig: of the watch's service account, with the rights that are shipped for it.   operator: of the operator's.
    """

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self._folder, (self._port, self._etcd_port, peer) = folder, ports
        etcd, packed = binaries()
        assert etcd is not None and packed is not None
        self._binary = packed
        if packed.suffix == ".xz":
            self._binary = folder / "kube-apiserver"
            with lzma.open(packed) as source, self._binary.open("wb") as target:
                shutil.copyfileobj(source, target)
            self._binary.chmod(0o755)
        subprocess.run(["openssl", "genrsa", "-out", folder / "sa.key", "2048"], check=True, capture_output=True)
        accounts = (f"{one},system:serviceaccount:gpuledger:gpuledger-{one},{one}" for one in ("watch", "operator"))
        (folder / "tokens.csv").write_text("\n".join(['admin,admin,0,"system:masters"', *accounts, ""]))
        self.kubeconfig, self.operator = self._kubeconfig("watch"), self._kubeconfig("operator")
        own, theirs = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{peer}"
        self._etcd = self._process(
            "etcd", str(etcd), "--data-dir", str(folder / "etcd"), "--listen-client-urls", own,
            "--advertise-client-urls", own, "--listen-peer-urls", theirs, "--initial-advertise-peer-urls", theirs,
            "--initial-cluster", f"default={theirs}", "--unsafe-no-fsync",
        )  # fmt: skip
        self.api = httpx.Client(
            base_url=f"https://127.0.0.1:{self._port}", verify=False, headers={"Authorization": "Bearer admin"}
        )
        self._server: subprocess.Popen[bytes] | None = None
        self.start_server()
        for role in (one for path in ROLES for one in yaml.safe_load_all(path.read_text())):
            if role["kind"].startswith("ClusterRole"):
                self.post(f"/apis/rbac.authorization.k8s.io/v1/{role['kind'].lower()}s", role)
            elif role["kind"].startswith("Role"):
                where = role["metadata"].get("namespace", OWN)
                self.api.post("/api/v1/namespaces", json={"metadata": {"name": where}})
                self.post(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{where}/{role['kind'].lower()}s", role)

    def _kubeconfig(self, token: str) -> Path:
        server = {"server": f"https://127.0.0.1:{self._port}", "insecure-skip-tls-verify": True}
        config = {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": server}],
            "users": [{"name": "u", "user": {"token": token}}],
        }
        path = self._folder / f"{token}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def _process(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)

    def start_server(self) -> None:
        key = str(self._folder / "sa.key")
        self._server = self._process(
            "kube-apiserver", str(self._binary), f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1", f"--secure-port={self._port}", "--cert-dir=certificates",
            "--token-auth-file=tokens.csv", "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}", "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        )  # fmt: skip

        def ready() -> bool:
            assert self._server is not None and self._server.poll() is None, "see kube-apiserver.log"
            with contextlib.suppress(httpx.TransportError):
                return self.api.get("/readyz").status_code == 200
            return False

        until(ready, every=0.1)

    def kill_server(self) -> None:
        assert self._server is not None
        self._server.kill()
        self._server.wait(PATIENCE_SECONDS)

    def compact(self) -> None:
        """etcd forgets all but what is now."""
        etcd = f"http://127.0.0.1:{self._etcd_port}/v3/kv"
        now = httpx.post(f"{etcd}/range", json={"key": "AA=="}).json()["header"]["revision"]
        assert httpx.post(f"{etcd}/compaction", json={"revision": now}).status_code == 200

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._checked(self.api.post(path, json=body))

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._checked(self.api.put(path, json=body))

    def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        kind = {"Content-Type": "application/strategic-merge-patch+json"}
        return self._checked(self.api.patch(path, json=body, headers=kind))

    def delete(self, path: str, grace: int) -> None:
        self._checked(self.api.request("DELETE", path, json={"gracePeriodSeconds": grace}))

    @staticmethod
    def _checked(answer: httpx.Response) -> dict[str, Any]:
        assert answer.status_code in (200, 201), answer.text
        found: dict[str, Any] = answer.json()
        return found

    def close(self) -> None:
        self.api.close()
        for process in (self._server, self._etcd):
            if process is not None:
                process.kill()
                process.wait(PATIENCE_SECONDS)


@contextlib.contextmanager
def control_plane(folder: Path) -> Iterator[ControlPlane]:
    folder.mkdir()
    plane = ControlPlane(folder, free_ports(3))
    try:
        yield plane
    finally:
        plane.close()
