# fish completion of tally; in config.fish: tally completion fish | source
function __tally_complete
    set -l words (commandline -opc) (commandline -ct)
    tally __complete -- $words[2..-1] 2>/dev/null
end
complete -c tally -a '(__tally_complete)'
