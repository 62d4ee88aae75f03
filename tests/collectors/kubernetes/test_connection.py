"""Where the server is and who we are, from a service account or a kubeconfig."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from collectors.kubernetes.connection import KubernetesError, find, from_kubeconfig, in_cluster


def kubeconfig(path: Path, user: dict[str, Any], **cluster: Any) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "me"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "users": [{"name": "me", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_token_or_a_file_of_it_is_sent(tmp_path: Path) -> None:
    found = from_kubeconfig(kubeconfig(tmp_path / "config", {"token": "t1"}))
    assert (found.server, found.bearer()) == ("https://10.0.0.1:6443", "t1")
    (tmp_path / "token").write_text("t2\n")
    found = from_kubeconfig(kubeconfig(tmp_path / "config", {"tokenFile": "token"}))
    assert found.bearer() == "t2"
    (tmp_path / "token").write_text("t3\n")
    assert found.bearer() == "t3"  # a renewed token is noticed
    (tmp_path / "token").unlink()
    with pytest.raises(KubernetesError, match="the token cannot be read"):
        found.bearer()


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ({"exec": {"command": "aws"}}, "logs in with exec, which is not run here. Next: a service account's token"),
        ({"auth-provider": {"name": "gcp"}}, "logs in with auth-provider"),
        ({"username": "u", "password": "p"}, "logs in with a password"),
        ({"client-certificate-data": "!", "client-key-data": "!"}, "certificates are unusable"),
        ({"client-certificate-data": base64.b64encode(b"x").decode(), "client-key-data": "eA=="}, "unusable"),
    ],
)
def test_logins_that_cannot_be_used_say_what_to_do(tmp_path: Path, user: dict[str, Any], says: str) -> None:
    with pytest.raises(KubernetesError, match=says):
        from_kubeconfig(kubeconfig(tmp_path / "config", user))


def test_what_a_kubeconfig_lacks_is_named_beside_what_it_has(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {"token": "t"})
    with pytest.raises(KubernetesError, match=r"has no context 'prod'\. It has: dev"):
        from_kubeconfig(path, "prod")
    path.write_text("]")
    with pytest.raises(KubernetesError, match="not YAML"):
        from_kubeconfig(path)
    with pytest.raises(KubernetesError, match=r"no kubeconfig\. Next: --kubeconfig FILE"):
        find(None, environment={"KUBECONFIG": str(tmp_path / "none")})
    with pytest.raises(KubernetesError, match="proxy-url are not supported"):
        from_kubeconfig(kubeconfig(path, {"token": "t"}, **{"proxy-url": "http://p"}))


def test_skipping_the_certificate_check_is_only_on_request(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {"token": "t"})
    found = from_kubeconfig(path)
    assert isinstance(found.verify, ssl.SSLContext)
    assert found.verify.verify_mode is ssl.CERT_REQUIRED
    found = find(kubeconfig(path, {"token": "t"}, **{"insecure-skip-tls-verify": True}))
    assert isinstance(found.verify, ssl.SSLContext)
    assert found.verify.verify_mode is ssl.CERT_NONE


def test_a_pods_service_account_needs_its_ca(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(KubernetesError, match="not a CA file"):
        in_cluster(environment, tmp_path)
    authorities = Path(ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt")
    if not authorities.exists():
        pytest.skip("this machine has no CA bundle to stand in for a cluster's")
    (tmp_path / "ca.crt").write_bytes(authorities.read_bytes())
    (tmp_path / "token").write_text("sa")
    found = in_cluster(environment, tmp_path)
    assert (found.server, found.bearer()) == ("https://[fd00::1]:443", "sa")
