#!/bin/sh
# Resolves pyproject.toml anew and writes the lock files beside this script: exact versions with hashes, valid for every
# Python that the project supports. The resolver lives in a throw-away environment; nothing else needs it.
#
#   requirements/lock.sh               keeps the versions that are locked where they still fit
#   requirements/lock.sh --upgrade     takes the newest ones
set -eu
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet uv
for bundle in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt; do
  if [ -f "$bundle" ]; then export SSL_CERT_FILE="$bundle"; break; fi
done

# compile NAME WHAT... : NAME.txt from pyproject.toml. Only the versions already locked there are preferences.
compile() {
  name=$1; shift
  "$scratch/venv/bin/uv" pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-header --no-annotate "$@" --output-file "requirements/$name.txt"
  echo "requirements/$name.txt: $(grep -c == "requirements/$name.txt") packages"
}

compile run pyproject.toml "$@"
compile build --group build --constraint requirements/run.txt "$@"
compile dev pyproject.toml --group dev --group build --constraint requirements/run.txt --constraint requirements/build.txt "$@"
compile live pyproject.toml --extra live --constraint requirements/run.txt "$@"
