"""Compose's ClickHouse: who may sign in, as the real engine reads the very files from a server's folder users.d."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPO
from tests.warehouse.accounts.as_account import answering
from warehouse.accounts.users_d import users_d

COMPOSE = REPO / "deploy" / "compose"
SERVICES = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
SHIPPED = """<clickhouse>
  <profiles><default/><readonly><readonly>1</readonly></readonly></profiles>
  <users><default><password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
    <access_management>1</access_management></default></users>
  <quotas><default/></quotas>
</clickhouse>"""
"""As a server's users.xml is."""
READS = """<clickhouse><users><default><password/><networks><ip>::/0</ip></networks><profile>default</profile>
  <quota>default</quota><access_management>1</access_management></default></users></clickhouse>"""
"""The embedded engine's only user, so that it can be asked what it has read."""
WHO = {
    "gpuledger_writer": "store-password",
    "gpuledger_reader": "reader-password",
    "gpuledger_auditor": "auditor-password",
    "gpuledger_grafana": "grafana-sql-password",
}


def build_accounts() -> tuple[str, ...]:
    spec = importlib.util.spec_from_file_location("compose_build", COMPOSE / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: tuple[str, ...] = module.ACCOUNTS
    return found


def test_the_file_is_what_the_declaration_makes() -> None:
    assert (COMPOSE / "clickhouse-users.xml").read_text() == users_d("gpuledger", build_accounts()), (
        "build.py renews it"
    )


@pytest.mark.parametrize("with_default", [True, False])
def test_the_engine_reads_the_accounts_and_no_other_user_is_left(tmp_path: Path, with_default: bool) -> None:
    folder = tmp_path / "users.d"
    folder.mkdir()
    (tmp_path / "users.xml").write_text(SHIPPED)
    shutil.copy(COMPOSE / "secrets.sh", tmp_path)
    subprocess.run([tmp_path / "secrets.sh"], check=True)
    secrets = tmp_path / "secrets"
    shutil.copy(COMPOSE / "clickhouse-users.xml", folder / "gpuledger.xml")
    shutil.copy(secrets / "clickhouse-passwords.xml", folder / "gpuledger-passwords.xml")
    (tmp_path / "config.xml").write_text(f"<clickhouse><users_config>{tmp_path}/users.xml</users_config></clickhouse>")
    if not with_default:
        # `default` is gone, and nobody signs in without a password: the embedded engine cannot even start.
        with (
            answering(tmp_path / "store", tmp_path / "config.xml") as asked,
            pytest.raises(ValueError, match="Expecting"),
        ):
            asked.ask("SELECT 1", "default")
        return
    (folder / "z-test.xml").write_text(READS)
    with answering(tmp_path / "store", tmp_path / "config.xml") as asked:
        users = asked.ask("SELECT name, auth_type FROM system.users ORDER BY name", "default").splitlines()
        assert users == ["default\t['plaintext_password']", *(f"{name}\t['sha256_password']" for name in sorted(WHO))]
        for name in WHO:
            granted = asked.ask(f"SHOW GRANTS FOR {name}", "default")
            assert granted.split() == ["GRANT", f"{name}_role", "TO", name]
        grants = asked.ask("SHOW GRANTS FOR gpuledger_grafana_role", "default")
        assert "v_charges" in grants
        assert "INSERT" not in grants
        assert "audit" not in grants
    kept = {
        user.tag: user.findtext("password_sha256_hex")
        for user in ElementTree.parse(secrets / "clickhouse-passwords.xml").getroot().iter()
        if user.find("password_sha256_hex") is not None
    }
    assert kept == {
        name: hashlib.sha256((secrets / file).read_text().encode()).hexdigest() for name, file in WHO.items()
    }


def test_each_process_has_the_least_account() -> None:
    clickhouse, server, grafana = (SERVICES[name] for name in ("clickhouse", "server", "grafana"))
    assert clickhouse["environment"] == {"CLICKHOUSE_SKIP_USER_SETUP": "1"}
    given = server["environment"]
    assert given["GPULEDGER_STORE"].startswith("clickhouse://gpuledger_writer@")
    assert (given["GPULEDGER_SQL_USER"], given["GPULEDGER_SQL_AUDIT_USER"]) == ("gpuledger_reader", "gpuledger_auditor")
    assert grafana["environment"]["GPULEDGER_SQL_USER"] == "gpuledger_grafana"
    secrets = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["secrets"]
    (sql,) = [one["source"] for one in grafana["secrets"] if isinstance(one, dict)]
    assert secrets[sql]["file"] == "secrets/grafana-sql-password"
    holders = {
        name: {one if isinstance(one, str) else one["source"] for one in service.get("secrets", [])}
        for name, service in SERVICES.items()
    }
    assert [name for name, held in holders.items() if "store_password" in held] == ["server"]
    files = {one: secrets[one]["file"].rpartition("/")[2] for one in secrets}
    for variable in (
        "GPULEDGER_STORE_PASSWORD_FILE",
        "GPULEDGER_SQL_PASSWORD_FILE",
        "GPULEDGER_SQL_AUDIT_PASSWORD_FILE",
    ):
        secret = given[variable].rpartition("/")[2]
        user = {"STORE": "gpuledger_writer", "SQL": given["GPULEDGER_SQL_USER"]}[variable.split("_")[1]]
        user = given["GPULEDGER_SQL_AUDIT_USER"] if "AUDIT" in variable else user
        assert files[secret] == WHO[user]
        assert secret in holders["server"]


def test_kubernetes_gives_the_server_the_same_accounts() -> None:
    text = (REPO / "deploy/kubernetes/components/clickhouse/kustomization.yaml").read_text()
    patch = yaml.safe_load(yaml.safe_load(text)["patches"][0]["patch"])
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    given = {one["name"]: one["value"] for one in container["env"]}
    assert given["GPULEDGER_STORE"].startswith("clickhouse://gpuledger_writer@")
    assert (given["GPULEDGER_SQL_USER"], given["GPULEDGER_SQL_AUDIT_USER"]) == ("gpuledger_reader", "gpuledger_auditor")
    for name, value in given.items():
        if name.endswith("_FILE"):
            assert f"--from-file={value.rpartition('/')[2]}=" in text, name
