"""Other libraries' models, read exactly or refused."""

from clearhead.interop.huggingface import load_huggingface

__all__ = ["load_huggingface"]
