"""Makes sources of C++ out of the families of kernels.

    generate.py text OUT.cc      every family's text as a string
    generate.py FAMILY OUT.cc    one family as functions of the host
    generate.py table OUT.cc     the list of those functions

Families and the pairs of element types that they are there for are in families.json.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
INCLUDE = re.compile(r'#include "kernels/(\w+\.h)"')

#: Of the host only, or what a device's compiler has no use for.
LEFT_OUT = {"host_module.h"}


def text_of(name: str, seen: set[str]) -> list[str]:
    """The lines of a file and of what it includes, each file once, without comments of whole lines."""
    seen.add(name)
    lines: list[str] = []
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        bare = line.strip()
        if match := INCLUDE.fullmatch(bare):
            if match.group(1) not in seen | LEFT_OUT:
                lines += text_of(match.group(1), seen)
        elif bare and not bare.startswith(("//", "#include", "#pragma once")):
            lines.append(re.sub(r"\s+// .*$", "", line))
    return lines


def module_text(family: str) -> str:
    """What is compiled for a module of this family."""
    return "\n".join([f"// tunableop module {family}", *text_of(f"{family}.h", set()), ""])


def all_texts(families: list[str]) -> str:
    """A source file with KernelSource()."""
    lines = ['#include "kernels/sources.h"', "", "namespace tunableop::device {", "namespace {", ""]
    lines += ["struct Source {", "  std::string_view family;", "  std::string_view text;", "};", ""]
    lines.append("constexpr Source kSources[] = {")
    for family in families:
        lines.append(f'{{"{family}", R"TUNABLEOP({module_text(family)})TUNABLEOP"}},')
    lines += ["};", "", "}  // namespace", ""]
    lines += ["std::string_view KernelSource(std::string_view family) {"]
    lines += ["  for (const Source& source : kSources) {"]
    lines += ["    if (source.family == family) return source.text;", "  }", "  return {};", "}", ""]
    lines += ["}  // namespace tunableop::device", ""]
    return "\n".join(lines)


def host_source(family: str, pairs: dict[str, list[str]]) -> str:
    """A source file with every kernel of a family, for all its types."""
    lines = ['#include "kernels/portable.h"', ""]
    for first, others in pairs.items():
        for second in others:
            lines += [f"#undef TUNABLEOP_{name}" for name in ("T0", "T1", "MODULE")]
            lines += [f"#define TUNABLEOP_T0 {first}", f"#define TUNABLEOP_T1 {second}"]
            lines += [f"#define TUNABLEOP_MODULE {family}_{first}_{second}"]
            lines += [f'#include "kernels/{family}.h"']
    lines += ["", "namespace tunableop::device {", ""]
    lines += [f"const HostEntry* HostEntriesOf_{family}() {{ return host_entries; }}", ""]
    lines += ["}  // namespace tunableop::device", ""]
    return "\n".join(lines)


def host_table(families: list[str]) -> str:
    """A source file with the list of all families' kernels."""
    lines = ['#include "kernels/host_table.h"', "", "namespace tunableop::device {", ""]
    lines += [f"const HostEntry* HostEntriesOf_{family}();" for family in families]
    lines += ["", "std::span<const HostFamily> HostFamilies() {"]
    lines += ["  static constexpr HostFamily kFamilies[] = {"]
    lines += [f'      {{"{family}", &HostEntriesOf_{family}}},' for family in families]
    lines += ["  };", "  return kFamilies;", "}", "", "}  // namespace tunableop::device", ""]
    return "\n".join(lines)


def main() -> None:
    """Writes one file."""
    what, out = sys.argv[1], Path(sys.argv[-1])
    families = json.loads((FOLDER / "families.json").read_text(encoding="utf-8"))
    out.parent.mkdir(parents=True, exist_ok=True)
    if what == "text":
        out.write_text(all_texts(list(families)), encoding="utf-8")
    elif what == "table":
        out.write_text(host_table(list(families)), encoding="utf-8")
    else:
        out.write_text(host_source(what, families[what]), encoding="utf-8")


if __name__ == "__main__":
    main()
