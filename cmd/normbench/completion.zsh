#compdef normbench
# zsh completion for normbench; load it with: source <(normbench completion zsh)
_normbench() {
	local -a list open
	list=(${(f)"$("${words[@]:0:$CURRENT-1}" "${words[CURRENT]}" --generate-bash-completion 2>/dev/null)"})
	open=(${(M)list:#*[:=]}) # more follows these without a space
	list=(${list:#*[:=]})
	(( $#open )) && compadd -S '' -a open
	if (( $#list )); then compadd -a list; elif (( ! $#open )); then _files; fi
}
(( $+functions[compdef] )) && compdef _normbench normbench
