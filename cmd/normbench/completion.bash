# bash completion for normbench; load it with: source <(normbench completion bash)
_normbench() {
	# bash splits words at : = and @ too: take them from the line, and give back what follows the last such.
	local line=${COMP_LINE:0:COMP_POINT} words
	local word=${line##*[[:space:]]}
	read -ra words <<<"${line%"$word"}"
	mapfile -t COMPREPLY < <("${words[@]}" "$word" --generate-bash-completion 2>/dev/null)
	if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[:=] ]]; then compopt -o nospace 2>/dev/null; fi
	local breaks=${COMP_WORDBREAKS//[!:=@]/}
	if [[ $breaks ]]; then COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*["$breaks"]}"}"}"); fi
}
complete -o bashdefault -o default -F _normbench normbench
