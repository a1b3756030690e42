# bash completion of tally; in ~/.bashrc: eval "$(tally completion bash)"
_tally() {
    local line=${COMP_LINE:0:COMP_POINT} words current cut IFS=$' \t\n'
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[${#words[@]}-1]}
    IFS=$'\n'
    COMPREPLY=($(tally __complete -- "${words[@]:1}" 2>/dev/null))
    cut=${current%"${current##*[@:=]}"}  # readline replaces only what follows these
    [[ $cut ]] && COMPREPLY=("${COMPREPLY[@]#"$cut"}")
    return 0
}
complete -o default -F _tally tally
