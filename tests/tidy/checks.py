"""The checks of the tidy suite: each takes text and returns what is wrong with it, one sentence per finding."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

TYPE_IGNORE = re.compile(r"type:\s*ignore(?P<code>\[[\w, -]+\])?(?P<reason>.*)", re.DOTALL)
NOQA = re.compile(r"noqa(?P<code>:\s*[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*)?(?P<reason>.*)", re.DOTALL | re.IGNORECASE)

# Spelled in two halves, so that this file holds to its own rule.
BANNED_WORDS = ("TO" + "DO", "FIX" + "ME", "X" + "XX")
MACHINE_PATHS = re.compile(r"(?<![\w.~$}-])/(?:work|root|home/[\w-]+|Users/[\w-]+)/")
BACKENDS = ("memory", "sqlite", "postgres", "mariadb", "mysql", "redis", "rabbitmq", "rocketmq")
CHANGE_KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
RUNNABLE_FENCES = ("```sh", "```bash", "```shell", "```console", "```python")


def read_numbers(style: str) -> dict[str, int]:
    """Return the table of STYLE.md: what it limits, and the limit."""
    rows = re.findall(r"^\| ([^|]+?) \| (\d+) \|$", style, re.MULTILINE)
    return {what: int(limit) for what, limit in rows}


def too_many_lines(text: str, limit: int) -> list[str]:
    count = len(text.splitlines())
    return [f"{count} lines, at most {limit}"] if count > limit else []


def long_functions(text: str, limit: int) -> list[str]:
    found = []
    for function in functions(text):
        count = (function.end_lineno or function.lineno) - function.lineno + 1
        if count > limit:
            found.append(f"line {function.lineno}: {function.name} has {count} lines, at most {limit}")
    return found


def many_parameters(text: str, limit: int) -> list[str]:
    found = []
    for function in functions(text):
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count > limit:
            found.append(f"line {function.lineno}: {function.name} has {count} parameters, at most {limit}")
    return found


def functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def sleeps(text: str) -> list[str]:
    """Find calls of `sleep`, however it was imported."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name == "sleep":
                found.append(f"line {node.lineno}: sleeps; wait with tests/support/waiting.py")
    return found


def unexplained_exceptions(text: str) -> list[str]:
    """Find exceptions from lint and types that do not name their rule and their reason."""
    found = []
    for line, comment in comments(text):
        for name, form in (("type: ignore", TYPE_IGNORE), ("noqa", NOQA)):
            match = form.search(comment)
            if match and not match["code"]:
                found.append(f"line {line}: {name} without a code")
            elif match and not re.search(r"\w{2}", match["reason"]):
                found.append(f"line {line}: {name} without a reason")
    return found


def comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def banned_words(text: str) -> list[str]:
    pattern = re.compile(rf"\b(?:{'|'.join(BANNED_WORDS)})\b")
    return [f"line {n}: an issue is the place for this" for n, line in numbered(text) if pattern.search(line)]


def machine_paths(text: str) -> list[str]:
    return [f"line {n}: a path of one machine" for n, line in numbered(text) if MACHINE_PATHS.search(line)]


def numbered(text: str) -> Iterator[tuple[int, str]]:
    yield from enumerate(text.splitlines(), start=1)


def backend_branches(text: str) -> list[str]:
    """Find comparisons with a backend's name, or with its class, in a test that all backends share."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if any(names_a_backend(word) for word in compared_words(node)):
            line = getattr(node, "lineno", 0)
            found.append(f"line {line}: asks which backend it runs on; let the backend declare a capability")
    return found


def compared_words(node: ast.AST) -> Iterator[str]:
    """Yield the words that a node compares something with."""
    compared: list[ast.AST] = []
    match node:
        case ast.Compare(left=left, comparators=comparators):
            compared = [left, *comparators]
        case ast.MatchValue(value=value):
            compared = [value]
        case ast.MatchClass(cls=name):
            compared = [name]
        case ast.Call(func=ast.Attribute(attr="startswith" | "endswith"), args=arguments):
            compared = [*arguments]
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
            compared = [kinds]
        case _:
            pass
    for part in compared:
        yield from words_of(part)


def words_of(part: ast.AST) -> Iterator[str]:
    """Yield the constants and the class names that an operand is made of."""
    match part:
        case ast.Constant(value=str() as word) | ast.Name(id=word) | ast.Attribute(attr=word):
            yield word
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            for element in elements:
                yield from words_of(element)
        case _:
            return


def names_a_backend(word: str) -> bool:
    return word.lower().startswith(BACKENDS)


def late_first_command(readme: str, limit: int) -> list[str]:
    """Find a README whose first command to run comes late, or never."""
    inside = False
    for number, line in numbered(readme):
        if inside and line.strip():
            return [f"the first command is in line {number}, at most {limit}"] if number > limit else []
        inside = inside or line.strip() in RUNNABLE_FENCES
    return ["there is no command to run"]


def silent_targets(makefile: str) -> list[str]:
    """Find targets that `make help` would not print; files and special targets need no help."""
    targets = re.findall(r"^([a-z][\w-]*):(?!=)(.*)$", makefile, re.MULTILINE)
    return [f"target {name} has no '## text'" for name, rest in targets if "## " not in rest]


def changelog_mistakes(changelog: str) -> list[str]:
    """Find what departs from the form of Keep a Changelog."""
    found = []
    lines = changelog.splitlines()
    if lines[:1] != ["# Changelog"]:
        found.append("the first line is not '# Changelog'")
    releases = [line for line in lines if line.startswith("## ")]
    if releases[:1] != ["## [Unreleased]"]:
        found.append("the first section is not '## [Unreleased]'")
    found += [
        f"'{line}' is not '## [1.2.3] - 2026-01-31'"
        for line in releases[1:]
        if not re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", line)
    ]
    kinds = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
    found += [f"'{kind}' is none of {', '.join(CHANGE_KINDS)}" for kind in kinds if kind not in CHANGE_KINDS]
    dates = [line[-10:] for line in releases[1:]]
    if dates != sorted(dates, reverse=True):
        found.append("releases are not ordered from new to old")
    return found
