"""Pages that stand alone: one HTML file with its style, its script and its data, which asks nobody for anything.

Scripts are ES modules in this folder, one job each. A page names the ones it starts with; their imports are joined to
one script, as browsers load no modules from ``file://``.
"""

from clearhead.pages.bundle import script
from clearhead.pages.document import standalone
from clearhead.pages.look import look_page
from clearhead.pages.serve import serve_page

__all__ = ["look_page", "script", "serve_page", "standalone"]
