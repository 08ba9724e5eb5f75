"""Other libraries' models, read exactly or refused."""

from clearhead.interop.huggingface import Imported, import_huggingface, load_huggingface

__all__ = ["Imported", "import_huggingface", "load_huggingface"]
