"""Weights on the Hugging Face Hub: `hf://owner/name`, or `hf://owner/name@v1`."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gswm.core.errors import UserError
from gswm.core.waiting import explained
from gswm.core.words import install

SCHEME = "hf://"
FILE = "model.safetensors"
"""The name of the weights in a repository, as `gswm export --hub` writes it."""
UNREACHED = ("LocalEntryNotFoundError", "ConnectionError", "ConnectError", "ConnectTimeout")
"""Errors of `huggingface_hub` and its HTTP libraries if there is no network."""


def fetch_from_hub(address: str) -> Path:
    """Download the weights of a repository, unless they are in the cache of `huggingface_hub`."""
    found = re.fullmatch(r"hf://([\w-][\w.-]*/[\w-][\w.-]*)(?:@([\w-][\w./-]*))?", address)
    if found is None:
        raise UserError(f"'{address}' is not a repository: use hf://owner/name")
    try:
        from huggingface_hub import hf_hub_download  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise UserError(f"{address} needs the package huggingface_hub: {install('hub')}") from error
    with explained(f"downloading {address}"), quiet("huggingface_hub"):
        try:
            return Path(hf_hub_download(repo_id=found[1], filename=FILE, revision=found[2]))
        except Exception as error:  # its errors have no common base class
            if type(error).__name__ in UNREACHED:
                raise UserError(
                    f"cannot load {address}: the hub cannot be reached, and its cache does not "
                    "have the file; check the network and try again"
                ) from error
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(f"cannot load {address}: {reason}") from error


@contextmanager
def quiet(package: str) -> Iterator[None]:
    """Suppress the warnings that a package logs, such as one for each attempt to connect."""
    logger = logging.getLogger(package)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
