"""The compressions that corpora may have, by the ending of the file."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable

import zstandard

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
