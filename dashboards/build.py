"""Writes the dashboards: `python dashboards/build.py`, or `--check` to ask whether the committed ones are these."""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
TARGET: Final = HERE / "grafana"


def rendered() -> dict[str, str]:
    """File name -> text of every dashboard, the same bytes each time."""
    sys.path.insert(0, str(HERE.parent))
    from dashboards.boards import BOARDS  # noqa: PLC0415 - run as a script, the repository is on the path only now

    return {f"{board.name}.json": json.dumps(board.json(), indent=2, ensure_ascii=False) + "\n" for board in BOARDS}


def stale(target: Path) -> list[str]:
    """Names of files that are not what would be written, or that nobody writes."""
    wanted = rendered()
    found = {path.name: path.read_text(encoding="utf-8") for path in target.glob("*.json")}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def main() -> int:
    """Write, or with --check compare: 1 and the names of what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; say which files are stale")
    parser.add_argument("--target", type=Path, default=TARGET, help="folder of the JSON files")
    options = parser.parse_args()
    if options.check:
        names = stale(options.target)
        sys.stderr.writelines(f"{name} is stale: run python dashboards/build.py\n" for name in names)
        return 1 if names else 0
    options.target.mkdir(parents=True, exist_ok=True)
    for name, text in rendered().items():
        (options.target / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
