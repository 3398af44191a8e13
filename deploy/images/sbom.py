"""What is in an image, as CycloneDX 1.6: `sbom.py ROOT` prints that of the root folder of one.

Debian's packages are read from dpkg's own list, Python's from what is installed in /opt/dllm-stack and beside
the image's own python3.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from email.parser import HeaderParser
from importlib.metadata import Distribution, distributions
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

_PYTHON = (
    "opt/dllm-stack/lib/python3.*/site-packages",
    "usr/*/lib/python3*/*-packages",
    "usr/lib/python3/*-packages",
)


def bom(root: Path, name: str, version: str) -> Bom:
    """Of the image `name` with that root folder."""
    contents = Bom()
    image = contents.metadata.component = Component(type=ComponentType.CONTAINER, name=name, version=version)
    contents.components.update(debian_packages(root), python_packages(root))
    contents.register_dependency(image, contents.components)
    return contents


def python_packages(root: Path) -> list[Component]:
    folders = [str(folder) for pattern in _PYTHON for folder in sorted(root.glob(pattern))]
    found = {each.metadata["Name"].lower(): each for each in reversed(list(distributions(path=folders)))}
    return [_python(found[name]) for name in sorted(found)]


def debian_packages(root: Path) -> Iterator[Component]:
    status = root / "var/lib/dpkg/status"
    for paragraph in status.read_text(encoding="utf-8").split("\n\n") if status.is_file() else []:
        fields = HeaderParser().parsestr(paragraph)
        if fields["Status"] != "install ok installed":
            continue
        name, version, architecture = fields["Package"], fields["Version"], fields["Architecture"]
        yield Component(
            type=ComponentType.LIBRARY,
            name=name,
            version=version,
            purl=PackageURL("deb", "debian", name, version, {"arch": architecture}),
            bom_ref=f"deb:{name}:{architecture}",
        )


def _python(distribution: Distribution) -> Component:
    name, version = distribution.metadata["Name"], distribution.version
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        purl=PackageURL("pypi", None, name.lower().replace("_", "-"), version),
        licenses=_licences(distribution),
        bom_ref=f"pypi:{name.lower()}",
    )


def _licences(distribution: Distribution) -> Iterable[License]:
    """By SPDX where the package says so, else in its own words."""
    fields = distribution.metadata
    if "License-Expression" in fields:
        return [LicenseFactory().make_from_string(fields["License-Expression"])]
    classified = [
        each.rpartition(" :: ")[2]
        for each in fields.get_all("Classifier", [])
        if each.startswith("License :: ") and each.count(" :: ") > 1
    ]
    written = fields["License"].strip().partition("\n")[0] if "License" in fields else ""
    return [LicenseFactory().make_with_name(each) for each in classified or [written] if each]


def text(contents: Bom) -> str:
    return str(JsonV1Dot6(contents).output_as_string(indent=1))


if __name__ == "__main__":
    print(text(bom(Path(sys.argv[1]), "dllm-stack", "0")))
