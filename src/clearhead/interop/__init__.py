"""Models in and out: from other libraries, to other libraries and engines; exactly, or not at all."""

from clearhead.interop.exporting import Agreement, Exported
from clearhead.interop.huggingface import Imported, import_huggingface, load_huggingface

__all__ = ["Agreement", "Exported", "Imported", "import_huggingface", "load_huggingface"]
