"""Redline.app and Redline.dmg: assembled, signed, put into an image, and checked.

`packaging/build.py` and `packaging/verify.py` run as files, so that this folder, which has the name of a package that
others import, never has to be imported itself; what they share is in here.

    build.py  -> assembly -> runtime, wheels, trim, mend, compiling, launcher, licences, plists -> signing -> image
    verify.py -> checks   -> machos, links, leaks, plists, imports
"""
