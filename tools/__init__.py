"""Programs for whoever works on Tallystick: the generated reference and the transcripts."""
