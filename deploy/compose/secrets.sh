#!/bin/sh
# Makes what compose.yaml needs and nobody else may know; what is there stays.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
random() { od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n'; }
for name in store-password reader-password auditor-password grafana-sql-password grafana-password agent-token; do
    [ -e "secrets/$name" ] || random > "secrets/$name"
done
[ -e secrets/senders.yaml ] || printf 'senders:\n  - {name: agents, token_sha256: %s}\n' \
    "$(tr -d '\n' < secrets/agent-token | sha256sum | cut -d' ' -f1)" > secrets/senders.yaml
# What ClickHouse keeps of its users' passwords: made anew each time, so that it follows them.
digest() { tr -d '\n' < "secrets/$1" | sha256sum | cut -d' ' -f1; }
{
    echo '<clickhouse><users>'
    while read -r user file; do
        printf '  <%s><password_sha256_hex>%s</password_sha256_hex></%s>\n' "$user" "$(digest "$file")" "$user"
    done << 'USERS'
gpuledger_writer store-password
gpuledger_reader reader-password
gpuledger_auditor auditor-password
gpuledger_grafana grafana-sql-password
USERS
    echo '</users></clickhouse>'
} > secrets/clickhouse-passwords.xml
[ -e secrets/sign-in.yaml ] || printf 'session_hours: 8\n' > secrets/sign-in.yaml
[ -e secrets/metrics-token ] || : > secrets/metrics-token
# The containers' users are not this one: files are readable, the folder is not.
chmod 644 secrets/senders.yaml secrets/sign-in.yaml secrets/*-password secrets/metrics-token secrets/clickhouse-passwords.xml
