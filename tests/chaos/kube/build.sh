#!/usr/bin/env bash
# `tests/chaos/kube/build.sh`: builds kube-apiserver and kube-scheduler 1.20.2 from Debian's source
# package `kubernetes` (bookworm; Debian itself builds kubectl only) with its golang-1.19, also
# kube-scheduler-preempt, which asks extenders before it evicts pods, and unpacks etcd. Everything
# lies in ~/.cache/orrery/kube (ORRERY_KUBE); nothing is installed, and no file of the machine is
# changed: apt gets a list of sources and folders of its own, packages are unpacked only. Prints the
# folder of the programs. A second call finds them and returns at once; an interrupted one goes on.
# Takes about 12 minutes of CPU, 2.5 GB while it builds, 250 MB afterwards.
# ORRERY_DEBIAN and ORRERY_DEBIAN_SECURITY name mirrors (http://deb.debian.org/debian, and
# -security).
set -euo pipefail
readonly root=${ORRERY_KUBE:-${XDG_CACHE_HOME:-$HOME/.cache}/orrery/kube}
readonly bin=$root/bin keyring=/usr/share/keyrings/debian-archive-keyring.gpg
readonly tree=$root/go/src/k8s.io/kubernetes packages=k8s.io/kubernetes
readonly programs='etcd etcdctl kube-apiserver kube-scheduler kube-scheduler-preempt'

say() { echo "kube: $*" >&2; }

is_built() {
  local program
  for program in $programs; do
    [[ -x $bin/$program ]] || return 1
  done
}

run_apt() { # run_apt COMMAND...: apt-get with the folders of this script alone
  "$1" -q -o Dir::Etc::sourcelist="$root/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$root/apt/lists" -o Dir::Cache="$root/apt/cache" \
    -o Acquire::Languages=none -o APT::Sandbox::User= "${@:2}"
}

fetch() { # the packages, and the source package as three files
  mkdir -p "$root"/apt/{lists,cache/archives}/partial "$root/packages"
  local mirror=${ORRERY_DEBIAN:-http://deb.debian.org/debian}
  printf '%s [signed-by=%s] %s %s main\n' \
    deb "$keyring" "$mirror" bookworm deb-src "$keyring" "$mirror" bookworm \
    deb-src "$keyring" "${ORRERY_DEBIAN_SECURITY:-$mirror-security}" bookworm-security \
    >"$root/apt/sources.list"
  run_apt apt-get update >&2
  (cd "$root/packages" &&
    run_apt apt-get download golang-1.19-go golang-1.19-src etcd-server etcd-client \
      golang-github-modern-go-reflect2-dev >&2 &&
    run_apt apt-get source --download-only kubernetes >&2)
}

unpack() {
  local package
  for package in "$root"/packages/*.deb; do
    dpkg-deb -x "$package" "$root/unpacked"
  done
  rm -rf "$tree"
  mkdir -p "$(dirname "$tree")" "$bin" "$root/temporary"
  dpkg-source -x "$root"/packages/kubernetes_*.dsc "$tree" >&2
  # reflect2 1.0.1 ends with SIGSEGV at the first map in JSON with Go 1.18 and later.
  rm -f "$tree"/vendor/github.com/modern-go/reflect2/go_{above,below}_17.go \
    "$tree"/vendor/github.com/modern-go/reflect2/go_below_19.go
  cp "$root"/unpacked/usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} \
    "$tree/vendor/github.com/modern-go/reflect2/"
  cp "$root"/unpacked/usr/bin/etcd{,ctl} "$bin/"
  touch "$root/unpacked/complete"
}

run_go() { # run_go WORD...: the unpacked compiler, below the folder of this script
  (cd "$tree" && env -i HOME="$root" PATH="$root/unpacked/usr/lib/go-1.19/bin:$PATH" \
    GOROOT="$root/unpacked/usr/lib/go-1.19" GOPATH="$root/go" GOCACHE="$root/objects" \
    GOTMPDIR="$root/temporary" GO111MODULE=off CGO_ENABLED=0 GOFLAGS=-trimpath go "$@")
}

# The models of all types that the server describes: every package with the tag in any of its files,
# otherwise the server ends with "cannot find model definition".
generate() {
  local folders
  run_go build -gcflags all=-dwarf=false -o "$bin/openapi-gen" \
    "$packages/vendor/k8s.io/kube-openapi/cmd/openapi-gen"
  folders=$(cd "$tree" && grep -rl --include='*.go' '+k8s:openapi-gen=true' pkg staging/src/k8s.io |
    xargs -n 1 dirname | sed 's,^staging/src/,vendor/,' | LC_ALL=C sort -u |
    grep -v -e /code-generator/ -e /sample- | sed "s,^,$packages/," | paste -sd ,)
  (cd "$tree" && env GOROOT="$root/unpacked/usr/lib/go-1.19" GOPATH="$root/go" GO111MODULE=off \
    PATH="$root/unpacked/usr/lib/go-1.19/bin:$PATH" "$bin/openapi-gen" --logtostderr \
    -i "$folders" -p "$packages/pkg/generated/openapi" -O zz_generated.openapi \
    -h hack/boilerplate/boilerplate.generatego.txt -r "$root/violations.txt" >&2)
}

build() { # build PACKAGE PROGRAM: without the drivers of clouds and without symbols of debuggers
  local name flags=''
  for name in component-base/version client-go/pkg/version; do
    name=$packages/vendor/k8s.io/$name
    flags+=" -X $name.gitVersion=v1.20.2 -X $name.gitMajor=1 -X $name.gitMinor=20"
  done
  run_go build -tags providerless -gcflags all=-dwarf=false -ldflags "-s -w$flags" \
    -o "$bin/$2.new" "$packages/cmd/$1"
  mv "$bin/$2.new" "$bin/$2"
}

# kube-scheduler 1.20.0 to 1.20.9 and 1.21.0 to 1.21.3 evicts pods without a question to extenders
# (kubernetes/kubernetes 102971). Adds the line of the correction, 103019.
ask_before_evictions() {
  local -r line='frameworkruntime.WithExtenders(extenders),'
  grep -q "$line" "$tree/pkg/scheduler/factory.go" ||
    sed -i "s/^\\t\\tframeworkruntime.WithPodNominator(nominator),/&\n\\t\\t$line/" \
      "$tree/pkg/scheduler/factory.go"
  grep -q "$line" "$tree/pkg/scheduler/factory.go"
}

main() {
  local begin=$SECONDS
  if ! is_built; then
    mkdir -p "$root"
    exec 9>"$root/lock" # a second call waits for the first one
    flock 9
  fi
  if ! is_built; then
    say "builds kube-apiserver and kube-scheduler in $root, about 15 minutes of CPU"
    if [[ ! -f $root/unpacked/complete ]]; then
      fetch
      unpack
    fi
    [[ -f $tree/pkg/generated/openapi/zz_generated.openapi.go ]] || generate
    build kube-scheduler kube-scheduler
    build kube-apiserver kube-apiserver
    ask_before_evictions
    build kube-scheduler kube-scheduler-preempt
    rm -rf "$root"/{go,objects,temporary,unpacked,packages,apt,violations.txt} "$bin/openapi-gen"
    say "built in $(((SECONDS - begin) / 60)) minutes"
  fi
  echo "$bin"
}

main
