#!/usr/bin/env bash
# Writes the secrets that docker-compose.yml mounts, once; what is there already stays.
# The folder is for its owner only; the files are readable, since containers read them as other users.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 077
mkdir -p secrets

random() { head -c "$1" /dev/urandom | base64 | tr -d '\n'; }
keep() { # NAME VALUE
    [ -s "secrets/$1" ] || { printf '%s' "$2" >"secrets/$1"; echo "wrote secrets/$1"; }
    chmod 0444 "secrets/$1"
}

keep secret_key "$(random 50)"
keep keys "k1:$(random 32)"
keep postgres_password "$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')"
keep database_url "postgresql://mcphub:$(cat secrets/postgres_password)@postgres:5432/mcphub"
keep redis_url "redis://redis:6379/0"
