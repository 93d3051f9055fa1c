# What .ci/run and scripts/nightly.sh share; sourced by bash.

# have COMMAND PACKAGE: install what a bare machine lacks.
have() {
	command -v "$1" >/dev/null && return
	echo "installing $2 for $1"
	if [ "$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi
	$sudo apt-get update -qq && $sudo apt-get install -y -qq "$2" >/dev/null
}
command -v go >/dev/null || { echo 'ci: error: no go; install Go 1.26 or later from https://go.dev/dl' >&2; exit 1; }
have gcc gcc
have g++ g++
have make make
have python3 python3
python3 -m pip --version >/dev/null 2>&1 || have pip3 python3-pip

step() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

# cross OS/ARCH...: the program without CUDA builds there.
cross() {
	for at; do
		echo "$at"
		CGO_ENABLED=0 GOOS=${at%/*} GOARCH=${at#*/} go build -o /dev/null ./cmd/normbench
	done
}

# nothing_left: in CI, the tests left no file behind.
nothing_left() {
	if [ -n "${CI:-}" ] && [ -n "$(git status --porcelain)" ]; then
		git status --porcelain
		echo 'ci: error: the tests left files behind' >&2
		exit 1
	fi
}
