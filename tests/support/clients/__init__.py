"""Real coding clients for tests, against the scripted model beside this folder.

`pins` says which, `install` gets them from npm, `setups` writes their files, `seat` drives one, `terminal` shows it on
a real screen, `observed` says what they do, `samples` keeps what they write.
"""
