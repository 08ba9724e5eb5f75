"""Import of other libraries' models: exactly, or not at all."""

from clearhead.interop.huggingface import Imported, import_huggingface, load_huggingface

__all__ = ["Imported", "import_huggingface", "load_huggingface"]
