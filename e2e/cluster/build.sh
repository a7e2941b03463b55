#!/bin/bash
# Builds every program of the test cluster from the Go modules pinned in modules/, into
# ${REFRAIN_CACHE:-~/.cache/refrain}/cluster/<key>. The key is a digest of the pins and of this script, so a
# changed version or flag builds anew and an unchanged one builds nothing. The last line on stdout is that folder;
# everything else goes to stderr.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${REFRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/refrain}/cluster
key=$(cd "$here" && cat build.sh modules/*/go.mod modules/*/go.sum | sha256sum | cut -c1-16)
out=$cache/$key

export CGO_ENABLED=0 GOWORK=off GOFLAGS="-mod=readonly -trimpath -buildvcs=false"

programs=(
  kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl
  etcd containerd containerd-shim-runc-v2 ctr helm coredns
)

elapsed() { printf '[%2d:%02d]' $((SECONDS / 60)) $((SECONDS % 60)); }
say() { echo "$(elapsed) $*" >&2; }

# The module a program belongs to, its package, and the flags it needs beyond the common ones.
module_of() {
  case $1 in
    kube*) echo kubernetes ;;
    containerd* | ctr) echo containerd ;;
    *) echo "$1" ;;
  esac
}

package_of() {
  case $1 in
    kube*) echo "k8s.io/kubernetes/cmd/$1" ;;
    containerd* | ctr) echo "github.com/containerd/containerd/v2/cmd/$1" ;;
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    helm) echo helm.sh/helm/v4/cmd/helm ;;
    coredns) echo github.com/coredns/coredns ;;
  esac
}

version_of() { go list -m -f '{{.Version}}' "$1"; }

# Without a version stamped in, Kubernetes programs call themselves v0.0.0 and clients refuse to talk to them.
stamp_of() {
  local version
  case $1 in
    kube*)
      version=$(version_of k8s.io/kubernetes)
      local minor=${version#v1.} to=k8s.io/component-base/version
      echo "-X $to.gitVersion=$version -X $to.gitMajor=1 -X $to.gitMinor=${minor%%.*} -X $to.gitTreeState=clean"
      ;;
    helm) echo "-X helm.sh/helm/v4/internal/version.version=$(version_of helm.sh/helm/v4)" ;;
    containerd* | ctr)
      version=$(version_of github.com/containerd/containerd/v2)
      echo "-X github.com/containerd/containerd/v2/version.Version=$version"
      ;;
  esac
}

# Runs a command and says every 20 seconds that it is still at it.
patiently() {
  local what=$1 pid status=0
  shift
  "$@" >&2 &
  pid=$!
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  (
    while sleep 20 && kill -0 "$pid" 2>/dev/null; do say "still $what"; done
  ) &
  local ticker=$!
  wait "$pid" || status=$?
  trap - INT TERM
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  return "$status"
}

build() {
  local program=$1 partial=$out/.$1.partial
  cd "$here/modules/$(module_of "$program")"
  say "building $program"
  patiently "building $program" go build -tags 'no_btrfs no_zfs no_devmapper' -ldflags "-s -w $(stamp_of "$program")" \
    -o "$partial" "$(package_of "$program")"
  mv "$partial" "$out/$program"
}

missing() {
  local program
  for program in "${programs[@]}"; do [[ -x $out/$program ]] || echo "$program"; done
}

# The one kind of the Gateway API that stories use.
fetch_kinds() {
  local module=sigs.k8s.io/gateway-api
  cd "$here/modules/gateway-api"
  go mod download "$module" >&2
  local folder
  folder=$(go list -m -f '{{.Dir}}' "$module")/config/crd/standard
  install -m 0644 "$folder/gateway.networking.k8s.io_referencegrants.yaml" "$out/referencegrants.yaml"
}

# Folders of older pins that nobody asked for in two weeks make room.
forget_old() {
  local mark
  for mark in "$cache"/*/.used; do
    [[ $mark == "$out/.used" || -z $(find "$mark" -mtime +14) ]] || rm -rf "${mark%/.used}"
  done
}

mkdir -p "$out"
if [[ -n $(missing) ]]; then
  command -v go >/dev/null || { echo "go is not installed: the test cluster is built from Go modules (https://go.dev/dl)" >&2; exit 1; }
  exec 9>"$cache/$key.lock"
  flock -n 9 || { say "another build of the test cluster is running: waiting for it"; flock 9; }
  mapfile -t todo < <(missing)
  if [[ ${#todo[@]} -gt 0 ]]; then
    say "building ${#todo[@]} programs of the test cluster into $out"
    say "the first build takes about 12 minutes on 2 cores; later runs reuse it"
    fetch_kinds
    for program in "${todo[@]}"; do build "$program"; done
    say "the test cluster is built"
  fi
fi
touch "$out/.used"
forget_old
echo "$out"
