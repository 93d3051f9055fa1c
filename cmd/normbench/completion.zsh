#compdef normbench
# zsh completion for normbench; load it with: source <(normbench completion zsh)
_normbench() {
	local -a list
	local cur=${words[CURRENT]}
	if [[ $cur == -* ]]; then
		list=(${(f)"$($words[1,CURRENT-1] $cur --generate-bash-completion 2>/dev/null)"})
	else
		list=(${(f)"$($words[1,CURRENT-1] --generate-bash-completion 2>/dev/null)"})
	fi
	if (( $#list )); then compadd -a list; else _files; fi
}
(( $+functions[compdef] )) && compdef _normbench normbench
