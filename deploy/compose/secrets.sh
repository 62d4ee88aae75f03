#!/bin/sh
# Makes what compose.yaml needs and nobody else may know; what is there stays.
#   ./secrets.sh [NODE ...]     a token for the agent of each node, by default this one; again for nodes that come later
# CLUSTER is the name that agents and watch give (default c1).
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
cluster=${CLUSTER:-c1}
random() { od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n'; }
hash() { tr -d '\n' < "$1" | sha256sum | cut -d' ' -f1; }
for name in store-password reader-password auditor-password grafana-sql-password grafana-password; do
    [ -e "secrets/$name" ] || random > "secrets/$name"
done
if [ ! -e secrets/senders.yaml ]; then
    random > secrets/watch-token
    printf 'senders:\n' > secrets/senders.yaml.new
    printf '  - {name: watch, token_sha256: %s, records: [events, devices, findings, service_levels], services: [kueue/*, volcano/*], clusters: [%s], nodes: all, back: 366d, inventory: true}\n' \
        "$(hash secrets/watch-token)" "$cluster" >> secrets/senders.yaml.new
    mv secrets/senders.yaml.new secrets/senders.yaml
fi
[ $# -gt 0 ] || set -- "$(hostname)"
for node in "$@"; do
    case $node in *[!A-Za-z0-9._-]*|"") echo "secrets.sh: $node: not a node's name" >&2; exit 2 ;; esac
    [ -e "secrets/agent-token-$node" ] && continue
    random > "secrets/agent-token-$node"
    printf '  - {name: agent-%s, token_sha256: %s, records: [samples, metrics, findings, devices], clusters: [%s], nodes: [%s]}\n' \
        "$node" "$(hash "secrets/agent-token-$node")" "$cluster" "$node" >> secrets/senders.yaml
done
# What ClickHouse keeps of its users' passwords: made anew each time, so that it follows them.
{
    echo '<clickhouse><users>'
    while read -r user file; do
        printf '  <%s><password_sha256_hex>%s</password_sha256_hex></%s>\n' "$user" "$(hash "secrets/$file")" "$user"
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
