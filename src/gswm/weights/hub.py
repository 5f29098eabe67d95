"""Weights on the Hugging Face Hub: `hf://owner/name`, or `hf://owner/name@v1`."""

import re
from pathlib import Path

from gswm.core.errors import UserError
from gswm.core.words import install

SCHEME = "hf://"
FILE = "model.safetensors"
"""The name of the weights in a repository, as `gswm export --hub` writes it."""


def fetch_from_hub(address: str) -> Path:
    """Download the weights of a repository, unless they are in the cache of `huggingface_hub`."""
    found = re.fullmatch(r"hf://([\w-][\w.-]*/[\w-][\w.-]*)(?:@([\w-][\w./-]*))?", address)
    if found is None:
        raise UserError(f"'{address}' is not a repository: use hf://owner/name")
    try:
        from huggingface_hub import hf_hub_download  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise UserError(f"{address} needs the package huggingface_hub: {install('hub')}") from error
    try:
        return Path(hf_hub_download(repo_id=found[1], filename=FILE, revision=found[2]))
    except Exception as error:  # its errors have no common base class
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"cannot load {address}: {reason}") from error
