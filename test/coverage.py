#!/usr/bin/env python3
"""coverage.py BUILD: how many lines of lib/ the tests have run that were run in
BUILD, a build with gcc's --coverage; and which ones they have not, unless
test/unit/uncovered gives a reason. Exit status 1: less than 95 %, a line without a
reason, or a reason without a line."""

import json
import os
import subprocess
import sys

LEAST = 95
REASONS = "test/unit/uncovered"


def count(objects, source):
    """{line number: (function, how often it ran)} of SOURCE, "lib/...c"."""
    notes = os.path.join(objects, source + ".gcno")
    told = subprocess.run(["gcov", "--json-format", "--stdout", notes],
                          check=True, capture_output=True).stdout
    lines = {}
    for file in json.loads(told)["files"]:
        if os.path.relpath(file["file"]) == source:
            for line in file["lines"]:
                lines[line["line_number"]] = (line.get("function_name", ""),
                                              line["count"])
    return lines


def uncovered(lines):
    """Lists of the lines that did not run and that no line which did separates."""
    runs = [[]]
    before = ""
    for number, (function, times) in sorted(lines.items()):
        if times or function != before:
            runs.append([])
        if not times:
            runs[-1].append(number)
        before = function
    return [run for run in runs if run]


def read_reasons():
    """[(place, rarely, source, function, text)]; a reason must follow each."""
    entries = []
    with open(REASONS, encoding="utf-8") as file:
        lines = file.read().splitlines() + [""]
    for number, line in enumerate(lines):
        if line and line[0] not in "#\t":
            where, _, text = line.partition(": ")
            rarely, source, function = ([""] + where.split())[-3:]
            place = f"{REASONS}:{number + 1}"
            if not lines[number + 1].startswith("\t"):
                sys.exit(f"{place}: no reason")
            entries.append((place, rarely, source, function, text))
    return entries


def fit(entries, source, function, code, numbers):
    """Those of ENTRIES that are about one of these lines of FUNCTION."""
    return [entry for entry in entries if entry[2:4] == (source, function) and
            any(entry[4] in code[number - 1] for number in numbers)]


def main():
    objects = os.path.join(os.path.abspath(sys.argv[1]), "CMakeFiles/core.dir")
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    entries = read_reasons()
    stale = list(entries)
    problems = []
    total = covered = 0
    for name in sorted(os.listdir("lib")):
        if not name.endswith(".c"):
            continue
        source = "lib/" + name
        lines = count(objects, source)
        ran = sum(1 for _, times in lines.values() if times)
        total += len(lines)
        covered += ran
        print(f"{source:<32}{ran:>5} of{len(lines):>5}"
              f"{100 * ran / len(lines):>7.1f} %")
        with open(source, encoding="utf-8") as file:
            code = file.read().splitlines()
        for run in uncovered(lines):
            function = lines[run[0]][0]
            fitting = fit(entries, source, function, code, run)
            stale = [entry for entry in stale if entry not in fitting]
            if not fitting:
                problems += [f"{source}:{n}: {function}() did not reach: "
                             f"{code[n - 1].strip()}" for n in run]
        for number, (function, _) in lines.items():
            there = fit(entries, source, function, code, [number])
            stale = [entry for entry in stale
                     if not (entry in there and entry[1])]
    share = 100 * covered / total
    print(f"{'lib/':<32}{covered:>5} of{total:>5}{share:>7.1f} %")
    problems += [f"{place}: a reason for what the tests reach"
                 for place, *_ in stale]
    if share < LEAST:
        problems.append(f"less than {LEAST} % of the lines of lib/")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
