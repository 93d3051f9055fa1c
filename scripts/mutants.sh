#!/usr/bin/env bash
# Applies each mutation of scripts/mutants.txt to a copy of the tree, and runs the test that is to fail of it.
# An entry is four lines and an empty one: the file, the text as it is (once in the file), the text
# instead, and the test's package and name. Exits 1 if a mutant survives. An operand chooses by a pattern.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z -co --exclude-standard | grep -zv '^results/.*/.*\.gz$' | xargs -0 cp --parents -t "$copy" 2>/dev/null || true
mkdir -p "$copy/results"
cp -r results/. "$copy/results/"
killed=0 survived=0
while IFS= read -r file && IFS= read -r old && IFS= read -r new && read -r pkg name; do
	IFS= read -r _ || true
	if [[ -n ${1:-} && ! "$file $old" =~ $1 ]]; then continue; fi
	# A mutation that no longer applies is as bad as one that survives.
	if ! OLD=$old NEW=$new perl -0pi -e '$n = () = /\Q$ENV{OLD}\E/g; exit 1 if $n != 1; s/\Q$ENV{OLD}\E/$ENV{NEW}/' "$copy/$file" || cmp -s "$file" "$copy/$file"; then
		echo "NOT APPLIED: $file: $old"
		survived=$((survived + 1))
		cp "$file" "$copy/$file"
		continue
	fi
	if ! (cd "$copy" && go build "./$pkg") >"$copy/build.log" 2>&1 </dev/null; then
		echo "DOES NOT BUILD: $file: $old -> $new"
		head -3 "$copy/build.log"
		survived=$((survived + 1))
	elif (cd "$copy" && timeout 300 go test -count 1 -run "^($name)\$" "./$pkg") >"$copy/test.log" 2>&1 </dev/null; then
		echo "SURVIVES: $file: $old -> $new ($name)"
		survived=$((survived + 1))
	else
		killed=$((killed + 1))
	fi
	cp "$file" "$copy/$file"
done <scripts/mutants.txt
echo "$killed mutants killed, $survived survive"
[[ $survived == 0 ]]
