#!/bin/bash
# Installs what the test cluster, the stories and the demo need on a Debian-like machine: packages that are missing,
# and a Python environment with the client libraries in the cache. Says nothing when all is there.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${REFRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/refrain}

packages=(
  util-linux mount procps iproute2 nftables iptables conntrack runc containernetworking-plugins
  buildah busybox-static python3 python3-venv ca-certificates gcc libc6-dev
)

say() { printf '[%2d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2; }

need() { # program, what to do
  command -v "$1" >/dev/null || { echo "$1 is not installed: $2" >&2; exit 1; }
}

is_installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

install_packages() {
  local missing=() root=() package
  for package in "${packages[@]}"; do is_installed "$package" || missing+=("$package"); done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  [[ $(id -u) == 0 ]] || root=(sudo)
  say "installing ${missing[*]}"
  "${root[@]}" apt-get update --quiet=2 >&2
  # Recommended packages would bring container engines that nothing here uses.
  DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}" >&2
}

# The environment is made anew when the pins change.
install_python() {
  local pins=$here/e2e/python/requirements.txt home=$cache/python
  cmp --quiet "$pins" "$home/requirements.txt" 2>/dev/null && return 0
  say "installing the Python client libraries into $home"
  mkdir -p "$cache"
  exec 8>"$cache/python.lock"
  flock 8
  rm -rf "$home"
  /usr/bin/python3 -m venv "$home"
  "$home/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$pins" >&2
  cp "$pins" "$home/requirements.txt"
}

need cargo "install Rust from https://rustup.rs; rust-toolchain.toml names the version"
need go "install Go 1.26 or newer from https://go.dev/dl"
if command -v apt-get >/dev/null; then
  install_packages
else
  say "this is not a Debian-like machine: install the equivalents of ${packages[*]} yourself"
fi
install_python
