import pytest

from scripts.generate_docs import PAGES


@pytest.mark.parametrize("page", sorted(PAGES))
def test_generated_page_is_up_to_date(page: str) -> None:
    path, text = PAGES[page]
    assert path.read_text(encoding="utf-8") == text(), f"stale: run python -m scripts.generate_docs {page}"
