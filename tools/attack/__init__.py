"""Bad input by the thousand: damaged run folders, model files that lie, absurd recipes, broken data, odd surroundings.

``python -m tools.attack`` prints a table; every kind of input has a generator of its own under ``kinds/``. A case
passes if the command ends in time, by itself, with an exit code that fits, with a message where it fails, and without
a traceback or a report of a bug.
"""
