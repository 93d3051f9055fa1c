# fish completion for normbench; load it with: normbench completion fish | source
function __normbench_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l list ($words "$word" --generate-bash-completion 2>/dev/null)
    if test (count $list) -gt 0
        printf '%s\n' $list
    else
        __fish_complete_path "$word"
    end
end
complete -c normbench -f -a '(__normbench_complete)'
