"""What a chart is asked to be, read from JSON, YAML or the command line and held against the data."""

import difflib
import json
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
import yaml

AGGREGATES = ("sum", "mean", "median", "count", "min", "max")
ONLY_EMPTY_IS_MISSING: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
"""Otherwise "NA" would be, which is Namibia as often as nothing."""
SORTS = ("none", "asc", "desc", "x")


@dataclass
class Spec:
    """One chart. `data` is a file, or rows written into the specification."""

    type: str = ""
    data: Any = None
    x: str = ""
    y: list[str] = field(default_factory=list)
    series: str = ""
    size_by: str = ""
    aggregate: str = ""
    sort: str = "none"
    top: int = 0
    bins: int = 0
    title: str = ""
    subtitle: str = ""
    x_label: str = ""
    y_label: str = ""
    unit: str = ""
    source: str = ""
    highlight: list[str] = field(default_factory=list)
    reference_lines: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    log: bool = False
    labels: bool | None = None
    size: list[float] = field(default_factory=lambda: [8.0, 4.6])
    alt: str = ""
    sheet: str = ""


def fail(message: str) -> NoReturn:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


def read_spec(path: Path | None, given: dict[str, Any]) -> tuple[Spec, Path]:
    """The specification of a file, completed by what the command line says, and where its paths begin."""
    content = read_object(path) if path else {}
    content |= {key: value for key, value in given.items() if value is not None}
    known = [item.name for item in fields(Spec)]
    for key in content:
        if key not in known:
            fail(f"a chart has no key {key!r}{nearest(key, known)}")
    for key in ("y", "highlight"):
        if isinstance(content.get(key), str):
            content[key] = [part.strip() for part in content[key].split(",")]
    content["highlight"] = [str(name) for name in content.get("highlight") or []]
    spec = Spec(**content)
    for value, allowed, key in ((spec.aggregate or "sum", AGGREGATES, "aggregate"), (spec.sort, SORTS, "sort")):
        if value not in allowed:
            fail(f"{key} cannot be {value!r}; it is one of {', '.join(allowed)}")
    return spec, path.parent if path else Path()


def read_object(path: Path) -> dict[str, Any]:
    """What a file of JSON or YAML says."""
    if not path.is_file():
        fail(f"there is no specification {str(path)!r}")
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as problem:
        fail(f"{path.name} cannot be read: {' '.join(str(problem).split())}")
    if not isinstance(content, dict):
        fail(f"{path.name} must hold one object with the keys of a chart")
    return content


def load(spec: Spec, base: Path) -> pd.DataFrame:
    """The rows of a chart."""
    if isinstance(spec.data, list):
        frame = pd.DataFrame(spec.data)
    elif isinstance(spec.data, str) and spec.data:
        path = Path(spec.data) if Path(spec.data).is_file() else base / spec.data
        if not path.is_file():
            fail(f"there is no data file {spec.data!r}")
        frame = read(path, spec.sheet)
    else:
        fail("data is missing: name a CSV, XLSX or JSON file, or write rows into the specification")
    if frame.empty:
        fail("the data has no rows")
    for name in [spec.x, *spec.y, spec.series, spec.size_by]:
        if name and name not in frame.columns:
            fail(f"the data has no column {name!r}{nearest(name, list(map(str, frame.columns)))}")
    for name in [*spec.y, *([spec.size_by] if spec.size_by else [])]:
        numbers = pd.to_numeric(frame[name], errors="coerce")
        lost = int(numbers.isna().sum() - frame[name].isna().sum())
        if lost:
            example = frame[name][numbers.isna() & frame[name].notna()].iloc[0]
            fail(f"column {name!r} is no column of figures: {lost} values such as {str(example)!r} are not numbers")
        frame[name] = numbers
    return frame


def read(path: Path, sheet: str) -> pd.DataFrame:
    """A file as a table."""
    try:
        match path.suffix.lower():
            case ".csv" | ".txt":
                return pd.read_csv(path, sep=None, engine="python", **ONLY_EMPTY_IS_MISSING)
            case ".tsv":
                return pd.read_csv(path, sep="\t", **ONLY_EMPTY_IS_MISSING)
            case ".xlsx" | ".xlsm":
                return pd.read_excel(path, sheet_name=sheet or 0, **ONLY_EMPTY_IS_MISSING)
            case ".json":
                return pd.DataFrame(json.loads(path.read_text(encoding="utf-8")))
    except Exception as problem:  # noqa: BLE001 - readers raise whatever their format does
        fail(f"{path.name} cannot be read: {' '.join(str(problem).split())[:200]}")
    fail(f"{path.name} is of no kind this reads; it reads csv, tsv, xlsx and json")


def arranged(frame: pd.DataFrame, spec: Spec) -> pd.DataFrame:
    """One row per x and one column per series, in the order asked for."""
    if len(spec.y) != 1 and spec.series:
        fail("with `series` there is one `y` column; leave `series` out to draw several columns")
    keys = [spec.x, *([spec.series] if spec.series else [])]
    if spec.aggregate:
        how = dict.fromkeys(spec.y, spec.aggregate)
        frame = frame.groupby(keys, sort=False, dropna=False).agg(how).reset_index()
    elif frame.duplicated(keys).any():
        twice = frame[frame.duplicated(keys)].iloc[0][spec.x]
        fail(f"{spec.x} {str(twice)!r} occurs more than once; set aggregate to {', '.join(AGGREGATES)}")
    if spec.series:
        wide = frame.pivot(index=spec.x, columns=spec.series, values=spec.y[0])
        wide = wide.reindex(index=frame[spec.x].unique(), columns=frame[spec.series].unique())
    else:
        wide = frame.set_index(spec.x)[spec.y]
    wide.columns = [str(name) for name in wide.columns]
    if spec.sort in {"asc", "desc"}:
        order = wide.sum(axis=1).sort_values(ascending=spec.sort == "asc", kind="stable").index
        wide = wide.loc[order]
    elif spec.sort == "x":
        wide = wide.sort_index()
    return folded(wide, spec.top) if spec.top else wide


def folded(wide: pd.DataFrame, top: int) -> pd.DataFrame:
    """The largest rows, the others as one."""
    if len(wide) <= top:
        return wide
    largest = wide.sum(axis=1).nlargest(top).index
    kept, rest = wide.loc[[key for key in wide.index if key in largest]], wide.drop(index=largest)
    return pd.concat([kept, pd.DataFrame([rest.sum()], index=[f"Other ({len(rest)})"])])


def nearest(name: str, known: list[str]) -> str:
    """What was probably meant, or all there is."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
