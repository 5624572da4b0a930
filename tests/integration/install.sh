#!/usr/bin/env bash
# Install what the integration tests start: packages of npm, Debian's servers, tools of Python with needs of their own.
# A part that cannot be had is reported here, and its tests are skipped with the reason.
set -uo pipefail
cd "$(dirname "$0")"
cache=$(cd ../.. && pwd)/.cache/integration
python=${PYTHON:-python3}
pip=("$cache/pip/bin/python" -m pip)
mkdir -p "$cache"

install_from_debian() {
    missing=()
    command -v chromium >/dev/null || missing+=(chromium)
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing+=(postgresql)
    if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
    fi
    command -v chromium >/dev/null || echo "missing: chromium (Debian package chromium)"
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || echo "missing: PostgreSQL (Debian package postgresql)"
}

install_from_npm() {
    command -v npm >/dev/null || { echo "missing: npm (Debian package npm)"; return; }
    cp package.json "$cache/"
    (cd "$cache" && npm install --no-package-lock --no-audit --no-fund --loglevel=error) ||
        echo "missing: the npm packages of tests/integration/package.json"
}

# Chat templates of many models, which the source of llama-cpp-python brings along; nothing of it is built.
install_templates() {
    [ ! -d "$cache/templates" ] || return
    mkdir -p "$cache/source" && "${pip[@]}" download --quiet --no-deps --no-binary :all: --dest "$cache/source" llama-cpp-python==0.3.36 &&
        mkdir -p "$cache/templates" &&
        tar xzf "$cache"/source/llama_cpp_python-*.tar.gz -C "$cache/templates" --strip-components=5 --wildcards --no-anchored 'models/templates/*.jinja' ||
        { rm -rf "$cache/templates"; echo "missing: the source of the package llama-cpp-python, for its chat templates"; }
    rm -rf "$cache/source"
}

# The tasks of BFCL and the sources of their functions; the package is not installed, what its checkers import is.
install_tasks() {
    [ -d "$cache/bfcl" ] || "${pip[@]}" install --quiet --target "$cache/bfcl" --no-deps --requirement ../../benchmarks/requirements-bfcl.txt ||
        echo "missing: the packages of benchmarks/requirements-bfcl.txt"
    ls "$cache"/bfcl_eval-*.whl >/dev/null 2>&1 || "${pip[@]}" download --quiet --no-deps --dest "$cache" bfcl-eval==2026.3.23 ||
        echo "missing: the package bfcl-eval"
}

# Python programs that must not share the environment of the tests: one environment for each file requirements-NAME.txt.
install_programs() {
    name=${1#requirements-}
    env="$cache/${name%.txt}"
    [ -x "$env/bin/python" ] || "$python" -m venv --without-pip "$env"
    "${pip[@]}" --python "$env/bin/python" install --quiet --requirement "$1" || echo "missing: the packages of tests/integration/$1"
}

"$python" -m venv --upgrade-deps "$cache/pip"  # the newest pip for all, which resolves in a third of the time
install_from_debian &
install_from_npm &
install_templates &
install_tasks &
for file in requirements-*.txt; do
    [ ! -e "$file" ] || install_programs "$file" &
done
wait
exit 0
