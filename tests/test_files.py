"""How sizes are written, and the read limit that a user can raise."""

import pytest

from sdpfeas.errors import FileFormatError, OptionError
from sdpfeas.files import format_size, parse_size, read_limit, require_within_limit


@pytest.mark.parametrize(
    ("text", "size"), [("4G", 4 << 30), ("512M", 512 << 20), ("1.5GiB", 3 << 29), ("7", 7)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "it") == size


@pytest.mark.parametrize("text", ["", "G", "4X", "-1G", "much", "٤G", "9" * 400])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(OptionError, match="it must be a size such as 4G"):
        parse_size(text, "it")


@pytest.mark.parametrize(
    ("count", "text"),
    [(7, "7 bytes"), (2048, "2 KiB"), (3 << 29, "1.5 GiB"), (10**400, "TiB"), (1023 << 30, "1,023 GiB")],
)
def test_sizes_for_people(count: int, text: str) -> None:
    assert format_size(count).endswith(text)


def test_the_limit_is_named_and_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SDPFEAS_READ_LIMIT", raising=False)
    assert read_limit() == 2**30
    require_within_limit(2**30, "bytes")
    with pytest.raises(
        FileFormatError, match=r"3 GiB; the limit is 1 GiB, and SDPFEAS_READ_LIMIT=3G"
    ) as caught:
        require_within_limit(3 << 27, "numbers", each=8)
    assert "402,653,184 numbers" in str(caught.value)
    monkeypatch.setenv("SDPFEAS_READ_LIMIT", "3G")
    require_within_limit(3 << 27, "numbers", each=8)
    monkeypatch.setenv("SDPFEAS_READ_LIMIT", "a lot")
    with pytest.raises(OptionError, match="SDPFEAS_READ_LIMIT must be a size"):
        read_limit()


@pytest.mark.parametrize("count", [2**30 + 1, 2**33 - 1, 2**41, 10**17, 10**30])
def test_what_is_said_to_be_enough_is(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileFormatError) as caught:
        require_within_limit(count, "bytes")
    monkeypatch.setenv("SDPFEAS_READ_LIMIT", str(caught.value).partition("LIMIT=")[2].split()[0])
    require_within_limit(count, "bytes")
