"""Turns ort.json, the facts of ONNX Runtime's C interface, into a C++ header.

    python3 generate.py ort.json --header ort_c_api.h [--check ort_c_api_check.cc]

The header declares what the project uses, each function at its slot, with the gaps filled, and asserts its
own offsets. The check is a translation unit for builds that have the official headers: it includes those and
asserts that every slot and enum value in ort.json is where and what they say.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

BANNER = "// Generated from ort.json by generate.py. Do not edit.\n"
POINTER = 8  # bytes; the slots are those of 64-bit builds


def function_pointer(entry: dict[str, Any]) -> str:
    """'void F(int a)' -> 'void(*F)(int a)'."""
    signature = re.sub(r"\s*__attribute__\(\(.*?\)\)", "", entry["signature"]).replace("_Bool", "bool")
    head, arguments = signature.split("(", 1)
    result = head[: head.rindex(entry["name"])].strip()
    return f"{result} (*{entry['name']})({arguments}"


def struct_lines(name: str, entries: list[dict[str, Any]], size: int) -> list[str]:
    """One table as a struct whose unlisted slots are reserved pointers."""
    lines = [f"struct {name} {{"]
    position = 0
    for entry in entries:
        offset = entry.get("offset_bytes", entry["slot"] * POINTER)
        gap = (offset - position) // POINTER
        if gap > 0:
            aligned = (position + POINTER - 1) // POINTER * POINTER
            gap = (offset - aligned) // POINTER
            if gap > 0:
                lines.append(f"  void* reserved_{aligned // POINTER}[{gap}];")
        if entry["kind"] == "fn":
            lines.append(f"  {function_pointer(entry)};")
            position = offset + POINTER
        else:
            lines.append(f"  {entry['signature'].replace('_Bool', 'bool')};")
            width = {"uint32_t": 4, "_Bool": 1, "bool": 1}.get(entry["signature"].split()[0], size - offset)
            position = offset + width
    aligned = (position + POINTER - 1) // POINTER * POINTER
    if size > aligned:
        lines.append(f"  void* reserved_{aligned // POINTER}[{(size - aligned) // POINTER}];")
    lines.append("};")
    for entry in entries:
        offset = entry.get("offset_bytes", entry["slot"] * POINTER)
        lines.append(f"static_assert(offsetof({name}, {entry['name']}) == {offset});")
    lines.append(f"static_assert(sizeof({name}) == {size});")
    return lines


def make_header(facts: dict[str, Any]) -> str:
    """The whole header as text."""
    tables: dict[str, list[dict[str, Any]]] = facts["tables"]
    enums: dict[str, dict[str, int]] = facts["enums"]
    used = {
        word
        for entries in tables.values()
        for entry in entries
        for word in re.findall(r"\bOrt\w+", entry["signature"])
        if word != entry["name"]
    }
    used |= set(re.findall(r"\bOrt\w+", " ".join(facts["callback_types"].values())))
    opaque = sorted(used - set(tables) - set(enums) - set(facts["callback_types"]))
    built = int(re.search(r"ORT_API_VERSION (\d+)", facts["header_version"]).group(1))  # type: ignore[union-attr]

    out = [BANNER, "#pragma once", "", "#include <cstddef>", "#include <cstdint>", "", 'extern "C" {', ""]
    out.append(f"// The newest interface version that these facts cover: ONNX Runtime 1.{built}.")
    out += [f"inline constexpr uint32_t kOrtBuiltApiVersion = {built};", ""]
    for name, values in enums.items():
        out.append(f"enum {name} : int {{")
        out += [f"  {key} = {value}," for key, value in values.items()]
        out += ["};", ""]
    out += [f"struct {name};" for name in [*opaque, *tables]]
    out.append("")
    for name, pointer in facts["callback_types"].items():
        out.append(f"typedef {pointer.replace('(*)', f'(*{name})')};")
    out.append("")
    for name, entries in tables.items():
        out += struct_lines(name, entries, facts["sizes"][name]["sizeof"])
        out.append("")
    out += [
        '}  // extern "C"',
        "",
        "// The first minor version 1.x that has a function newer than 1.24, the floor.",
    ]
    out += ["namespace ort_since {"]
    for name, entries in tables.items():
        for entry in entries:
            minor = int(str(entry["since"] or "1.0").split(".")[1])
            if entry["kind"] == "fn" and minor > 24:
                out.append(f"inline constexpr uint32_t {name}_{entry['name']} = {minor};")
    out += ["}  // namespace ort_since", ""]
    return "\n".join(out)


def make_check(facts: dict[str, Any]) -> str:
    """Asserts against the official headers, as text."""
    out = [BANNER, "#include <cstddef>", "#include <onnxruntime_c_api.h>", ""]
    for name, entries in facts["tables"].items():
        for entry in entries:
            offset = entry.get("offset_bytes", entry["slot"] * POINTER)
            since = int(str(entry["since"] or "1.0").split(".")[1])
            out.append(f"#if ORT_API_VERSION >= {since}")
            out.append(f'static_assert(offsetof({name}, {entry["name"]}) == {offset}, "ort.json is wrong");')
            out.append("#endif")
    for name, values in facts["enums"].items():
        out += [f"// {name}"] + [
            f'static_assert(static_cast<int>({key}) == {value}, "ort.json is wrong");'
            for key, value in values.items()
        ]
    return "\n".join(out) + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("facts", type=Path)
    parser.add_argument("--header", type=Path, required=True)
    parser.add_argument("--check", type=Path)
    args = parser.parse_args()
    facts = json.loads(args.facts.read_text(encoding="utf-8"))
    args.header.parent.mkdir(parents=True, exist_ok=True)
    args.header.write_text(make_header(facts), encoding="utf-8")
    if args.check is not None:
        args.check.write_text(make_check(facts), encoding="utf-8")


if __name__ == "__main__":
    main()
