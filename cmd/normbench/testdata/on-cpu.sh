#!/bin/bash
set -e
echo "$*" >>"$RAN"
[ "$1" = selftest ] && exit
args=(--samples 1)
case $1 in sweep | verify | compare) args+=(--op rmsnorm --pass fwd) ;; esac
case $1 in verify | lint) args=("${args[@]:2}") ;; esac
[ "$1" != verify ] || args+=(--host-only)
command=$1
shift
while [ $# -gt 0 ]; do
	case $1 in
	--device) args+=(--device cpu); shift ;;
	--shapes) args+=(--shapes "4x64,8x64"); shift ;;
	--rounds) args+=(--rounds 9); shift ;;
	--baseline-kernels) [ -d "$2" ]; shift ;;
	--strict) ;;
	*) args+=("$1") ;;
	esac
	shift
done
normbench "$command" "${args[@]}"
[ "$command" != compare ] || exit "$CODE"
