# bash completion for normbench; load it with: source <(normbench completion bash)
_normbench() {
	local cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]:0:COMP_CWORD}") list
	case $cur in
	-*) list=$("${words[@]}" "$cur" --generate-bash-completion 2>/dev/null) ;;
	*) list=$("${words[@]}" --generate-bash-completion 2>/dev/null) ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$list" -- "$cur")
}
complete -o bashdefault -o default -F _normbench normbench
