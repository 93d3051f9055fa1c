#!/bin/sh
# Puts the program of a wheel or an archive into a folder, in seconds: no pip, no Go. action.yml runs it, and
# templates/gate.yml has a copy, because a component of GitLab is one file.
#
#   install.sh URL|FILE FOLDER    a file of `make release`: normbench-VERSION-linux-ARCH.tar.gz, or a wheel
#
# A SHA256SUMS beside a URL is held to. Whatever is wrong is one line with a hint, exit code 2, and nothing in FOLDER.
set -eu

die() {
	echo "normbench: error: $1" >&2
	echo "normbench: hint: $2" >&2
	exit 2
}

[ $# = 2 ] || die "install.sh takes a file and a folder, got $# operands" "install.sh URL|FILE FOLDER"
from=$1 to=$2
machine="$(uname -s), $(uname -m)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $from in
http://* | https://*)
	name=${from##*/} name=${name%%\?*}
	file=$work/$name
	curl --fail --silent --location --retry 2 --output "$file" "$from" ||
		die "cannot download $from" "is it the address of a release's file, which this machine may read?"
	if curl --fail --silent --location --output "$work/SHA256SUMS" "${from%/*}/SHA256SUMS" &&
		grep -F -- "  $name" "$work/SHA256SUMS" >"$work/sum"; then
		(cd "$work" && sha256sum --status --check sum) ||
			die "$from is not what SHA256SUMS beside it says" "download it again; else the release is damaged"
	fi
	;;
*)
	file=$from
	[ -f "$file" ] || die "there is no file $file" "name a wheel or an archive of make release, or its URL"
	;;
esac
mkdir "$work/all"
case $file in
*.tar.gz | *.tgz) tar -xzf "$file" -C "$work/all" 2>/dev/null || die "$from is no archive that tar reads" "download it again" ;;
*.whl) python3 -m zipfile -e "$file" "$work/all" 2>/dev/null || die "$from is no wheel that python3 reads" "use the archive (.tar.gz)" ;;
*) die "$from is neither a wheel (.whl) nor an archive (.tar.gz)" "name a file of make release" ;;
esac
program=$(find "$work/all" -type f -name normbench | head -n 1)
[ -n "$program" ] || die "$from has no program normbench" "name a file of make release"
chmod 755 "$program"
version=$("$program" version 2>/dev/null) ||
	die "$from is for another machine than this ($machine)" "take the file whose name has $(uname -m)"
mkdir -p "$to"
mv "$program" "$to/normbench"
echo "$version"
