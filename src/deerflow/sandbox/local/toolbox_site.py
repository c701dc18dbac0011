"""Startup code of the toolbox's Python: packages that pip installs go to the user's folder and take precedence.

It runs inside the sandbox: it is copied into the toolbox and never imported.
"""

import site
import sys

PIP = ("pip", "pip3", f"pip3.{sys.version_info.minor}")

# Otherwise the packages of the base interpreter would be visible after those of the toolbox.
site.PREFIXES.clear()

if not sys.flags.no_user_site:
    own = site.getusersitepackages()
    site.addsitedir(own)
    sys.path[:] = [path for path in sys.path if path != own]
    sys.path.insert(next(n for n, path in enumerate(sys.path) if path.startswith(sys.prefix)), own)

# In a virtual environment pip never replaces or removes packages in the user's folder.
if any(word.rpartition("/")[2] in PIP for word in sys.orig_argv[1:4]):
    sys.base_prefix = sys.prefix
