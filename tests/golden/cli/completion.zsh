#compdef tally
# zsh completion of tally; in ~/.zshrc, after compinit: eval "$(tally completion zsh)"
_tally() {
    local -a found
    found=(${(f)"$(tally __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then compadd -- $found; else _files; fi
}
compdef _tally tally
