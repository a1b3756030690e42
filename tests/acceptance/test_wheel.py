"""The wheel is whole: installed outside of the checkout, it does the main job."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = place.glob("*.whl")
    return made


def test_it_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    here = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tallystick").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == here
    hooks = {f"tallystick/edge/clients/{name}" for name in ("hook.sh", "pi/extension.ts", "opencode/plugin.js")}
    assert {"tallystick/py.typed", "tallystick/store/sql/queries.sql", *hooks} <= names


@pytest.mark.parametrize("words", [("try",), ("demo", "reach")])
def test_installed_elsewhere_it_does_the_main_job(wheel: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "lib")
    # The dependencies are those of this environment; the package itself is only found in the wheel.
    found = "import tallystick; print(tallystick.__file__, flush=True)"
    start = f"import sys; sys.path.insert(0, {str(tmp_path / 'lib')!r}); {found}"
    main = "from tallystick._tally import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"{start}; {main}", *words],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(str(tmp_path / "lib"))
