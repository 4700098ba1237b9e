"""SQL that the shop's operator writes in the configuration, before any database has seen it.

It is put between parentheses in statements of ours, so it must stay between them: whatever could end them early, or
hide the end of the statement, is refused. This guards against slips, not against the operator, who may do anything to
the database anyway; and so it refuses what databases read differently rather than guess.
"""

import re
from typing import Final

_PIECE: Final = re.compile(
    r"""(?P<literal>'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`)
    | (?P<parenthesis>[()]) | (?P<end>;) | (?P<comment>--|/\*|\*/) | (?P<dollar>\$\w*\$) | (?P<quote>['"`])
    """,
    re.VERBOSE,
)
_ESCAPED_QUOTE: Final = re.compile(r"""\\['"`]""")
_REFUSED: Final = {
    "end": "is not allowed: this is one expression inside a statement",
    "comment": "is not allowed: a comment could hide the rest of the statement",
    "dollar": "is not allowed; write text between single quotes",
    "quote": "has no other end; quotes must come in pairs",
}


def checked_sql(text: str) -> str:
    """Answer a condition or an expression that stays between the parentheses it is put in.

    Raises:
        ValueError: it could get out, or hide what follows; the sentence says what was found and what is allowed.
    """
    if _ESCAPED_QUOTE.search(text):
        raise ValueError("a quote after a backslash is read differently by databases; write the quote twice")
    depth = 0
    for piece in _PIECE.finditer(text):
        why = _REFUSED.get(piece.lastgroup or "")
        if why is not None:
            raise ValueError(f"{piece.group()} {why}")
        depth += {"(": 1, ")": -1}.get(piece.group(), 0)
        if depth < 0:
            break
    if depth:
        raise ValueError("parentheses must come in pairs, each opened before it is closed")
    return text
