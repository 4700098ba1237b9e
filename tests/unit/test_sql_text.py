import pytest

from duetime.sql_text import checked_sql


@pytest.mark.parametrize(
    "text",
    [
        "is_deleted = 0 and pay_type <> 'cod'",
        "(a = 1 or (b = 2)) and c in (3, 4)",
        "note not like '%) -- ; /* (%' and \"odd;name(\" = ':x'",
        "`weird--column(` is null",
        "label = 'it''s ('",
        "payload #>> '{a,b}' = 'x'::text",
        "path = 'C:\\temp'",
    ],
)
def test_what_stays_between_its_parentheses_is_taken_as_it_is(text: str) -> None:
    assert checked_sql(text) == text


@pytest.mark.parametrize(
    "text, hint",
    [
        ("a = 1) or (b = 2", "parentheses must come in pairs"),
        ("a = 1)", "parentheses must come in pairs"),
        ("f(a", "parentheses must come in pairs"),
        ("a = 1; delete from orders", "; is not allowed"),
        ("a = 1 -- )", "-- is not allowed: a comment"),
        ("a = 1 /* x", "/* is not allowed: a comment"),
        ("a = 'open", "' has no other end"),
        ("a = $$) or ($$", "$$ is not allowed"),
        ("a = $t$) or ($t$", "$t$ is not allowed"),
        ("a = 'x\\' or b = ') or (1 = 1'", "write the quote twice"),
    ],
)
def test_what_could_get_out_is_refused_with_what_was_found(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=r"must|allowed|end|twice") as refused:
        checked_sql(text)
    assert hint in str(refused.value)
