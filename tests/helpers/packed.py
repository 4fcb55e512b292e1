"""Archives made by hand, mischief included."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Mapping


def tar_of(members: Mapping[str, bytes], links: Mapping[str, tuple[bytes, str]] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
        for name, (kind, target) in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            file.addfile(info)
    return out.getvalue()


def zip_of(members: Mapping[str, bytes], links: Mapping[str, tuple[bytes, str]] | None = None) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
        for name, (_, target) in (links or {}).items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            file.writestr(info, target)
    return out.getvalue()
