#!/bin/sh
# Asks Tallystick at a pause of a coding client; written by `tally install`. First word: session, prompt, tool, stop or wait.
# The hint file holds a count; 0 ends it here, at a tenth of what starting Python costs. Missing or unreadable: look.
# A prompt that holds an @ is looked at all the same, it may name somebody. Whatever goes wrong, the client goes on.
LC_ALL=C
event=$1 count='' seen='' line='' found=''
# Without a terminal Claude Code stays until every hook has ended: one that waits would hold it for ever.
case $event.'@CLIENT@'.${CLAUDE_CODE_ENTRYPOINT:-cli} in wait.claude.cli) ;; wait.claude.*) exit 0 ;; esac
{ read -r count <'@HINT@'; } 2>/dev/null
if [ "$count" = 0 ]; then
  case $event in
  @ALWAYS@) ;;
  prompt)
    while IFS= read -r line || [ -n "$line" ]; do
      seen="$seen$line
"
      case $line in *@*) found=1 && break ;; esac
      line=
    done
    [ -n "$found" ] || exit 0
    ;;
  *) exit 0 ;;
  esac
fi
if [ ! -x '@PYTHON@' ] || [ ! -r '@HOOK@' ]; then
  echo 'tallystick: it is no longer where it was installed; run `tally install` again' >&2
  exit 0
fi
TALLY_HOME='@HOME@'
export TALLY_HOME
[ "$event" = wait ] && exec '@PYTHON@' -I -S '@HOOK@' '@CLIENT@' wait "$PPID"
if [ -n "$seen" ]; then
  exec 3<<END_OF_WHAT_WAS_READ
$seen
END_OF_WHAT_WAS_READ
fi
'@PYTHON@' -I -S '@HOOK@' '@CLIENT@' "$event" || echo 'tallystick: the inbox could not be looked at' >&2
exit 0
