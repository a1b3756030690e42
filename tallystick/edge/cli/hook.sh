#!/bin/sh
# Tells a coding client what is unseen in its inbox; written by `tally install`, which fills in the words between @.
# The hint file holds a count; 0 ends it here, at a tenth of what starting Python costs. Missing or unreadable: look.
# Whatever goes wrong, the client goes on.
count=
{ read -r count <'@HINT@'; } 2>/dev/null
[ "$count" = 0 ] && exit 0
TALLY_HOME='@HOME@'
export TALLY_HOME
'@PYTHON@' -I -S '@HOOK@' '@CLIENT@' || echo 'tallystick: the inbox could not be looked at' >&2
exit 0
