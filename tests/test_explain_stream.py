"""explain on streams: any size, any cut into chunks, any bytes; and its command line."""

import io
import json
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, TextIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxlab.cli import main
from mxlab.errors import InputError
from mxlab.explain import explain
from mxlab.explain_index import index
from mxlab.explain_match import Hit
from mxlab.explain_scan import Scan
from mxlab.explain_table import every_message

STOP = (
    b"RuntimeError: --fp8-gemm-backend=deep_gemm cannot serve MXFP8 weight shape (2880, 576) "
    b"(needs N % 64 == 0 and K % 128 == 0), "
    b"and this device has no FlashInfer MXFP8 fallback kernel.\n"
)
ROW = (
    b"[2026-11-30 10:00:01 TP0] Prefill batch. #new-seq: 1, #new-token: 4096, #cached-token: 0, \n"
)


def scanned(chunks: list[bytes]) -> Scan:
    scan = Scan(index(every_message()))
    scan.run(iter(chunks))
    return scan


def shown(scan: Scan) -> list[tuple[str, int, str, int, object]]:
    def first(hit: Hit) -> tuple[str, int, str]:
        return hit.template.guard.id, hit.line, hit.text

    return sorted((*first(t.first), t.count, dict(t.ranks)) for t in scan.tallies.values())


MIXED = b"\n".join(
    [
        ROW * 40,
        b"[TP1] \x1b[31mMXFP8 KV cache requires head_dim divisible by 32, got \x1b[1m80\x1b[0m.",
        b" " * 3000,
        "│ MXFP8 requires n >= 128 and k >= 128 for CUT │".encode(),
        "│ LASS MXFP8. got m=4, n=64, k=70.             │".encode(),
        b"\xff\x00" * 500 + b"\\n" + STOP,
        ROW * 40,
        b'{"m": "K=100 must be divisible by 32 for MXFP8.\\nTraceback"}',
        STOP.replace(b"2880", b"96")[:-1],
    ]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, len(MIXED)), max_size=12))
def test_any_cut_gives_the_same(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(MIXED)]
    chunks = [MIXED[a:b] for a, b in pairwise(edges)]
    whole, cut = scanned([MIXED]), scanned(chunks)
    assert shown(cut) == shown(whole)
    assert (cut.lines, cut.size) == (whole.lines, whole.size)
    assert len(whole.tallies) == 6 and whole.lines == MIXED.count(b"\n") + 1


@pytest.mark.parametrize("size", [97, 1000, 8192])
def test_small_chunks(size: int) -> None:
    chunks = [MIXED[at : at + size] for at in range(0, len(MIXED), size)]
    assert shown(scanned(chunks)) == shown(scanned([MIXED]))


def test_a_message_across_every_edge() -> None:
    """Of a chunk, and of what is kept of it for the next one (8 KiB, looked at from its middle)."""
    chunk = 1 << 20
    places = [*range(chunk - 8400, chunk - 8180, 9), *range(chunk - 8180, chunk + 3, 97)]
    places += range(chunk - len(STOP) - 3, chunk + 3, 11)
    for before in places:
        filler = (ROW * (before // len(ROW) + 1))[-before:]
        found = explain(io.BytesIO(filler + STOP + ROW * 100))
        assert [(m.guard.id, m.count) for m in found.matches] == [("wsp-deepgemm", 1)]
        assert found.matches[0].line == 1 + filler.count(b"\n")
        assert found.matches[0].values == {"n": 2880, "k": 576} and found.matches[0].complete


@pytest.mark.parametrize("source", ["str", "bytes", "binary stream", "text stream"])
def test_sources(source: str) -> None:
    text = STOP.decode()
    given: dict[str, str | bytes | BinaryIO | TextIO] = {
        "str": text,
        "bytes": STOP,
        "binary stream": io.BytesIO(STOP),
        "text stream": io.StringIO(text),
    }
    assert [match.guard.id for match in explain(given[source]).matches] == ["wsp-deepgemm"]


@pytest.mark.parametrize("nothing", ["", b"", " \n\t ", b"\0" * 5000, io.BytesIO(b"")])
def test_nothing_to_read(nothing: str | bytes | io.BytesIO) -> None:
    with pytest.raises(InputError, match="the text is empty: expected an error message"):
        explain(nothing)


def test_bytes_that_are_no_text() -> None:
    draw = random.Random(7)
    elf = b"\x7fELF\x02\x01\x01" + bytes(draw.choice((0, 0, 0, 3, 200, 144)) for _ in range(5000))
    for data in (draw.randbytes(100_000), elf, b"\x89PNG\r\n\x1a\n" + draw.randbytes(300)):
        with pytest.raises(InputError, match="the input is binary"):
            explain(data)
    for text in (
        "caf\u00e9 na\u00efve \u00fcber alles".encode("latin-1"),
        "日本語のログ".encode(),
        b'"',
    ):
        assert explain(text).matches == ()


def test_odd_text() -> None:
    text = STOP.decode()
    for data in (
        text.encode("utf-16"),
        b"\0" * 100_000 + STOP,
        b"\xff\xfe" + STOP,
        "\ud800" + text,
        text + "\udcff",
        text.replace("\n", "\r\n"),
    ):
        (match,) = explain(data).matches
        assert (match.guard.id, match.values) == ("wsp-deepgemm", {"n": 2880, "k": 576})
        json.dumps(match.to_json(), allow_nan=False).encode("utf-8")
        assert match.text.isprintable()


@pytest.mark.parametrize(
    "unit",
    [
        "(" * 50,
        "MXFP8 requires n >= 128 and k >= 128 for CUTLASS MXFP8. got m=" + "(" * 10,
        "MXFP8 requires n >= 128 and k >= 128 for CUTLASS MXFP8. got m=1, n=",
        "Weight input_size_per_partition = "
        + "[" * 250
        + "is not divisible by weight quantization",
        ", got ",
        "shape '",
        "k=",
        "\x1b[" + "1;" * 30,
        "Quantization method specified in the model config (" + ")" * 20,
        "  a.py:1",
        "--fp8-gemm-backend=deep_gemm cannot serve MXFP8 weight shape (1, 1) (needs N % 64 == 0 an",
        "'" * 40 + '"\\' * 40,
        STOP.decode(),
    ],
)
def test_hostile_text_takes_no_time(unit: str) -> None:
    for text in (unit * (1_000_000 // len(unit)), "\n".join([unit] * (1_000_000 // len(unit)))):
        start = time.process_time()
        explain(text)
        assert time.process_time() - start < 1.0


def test_very_many_occurrences() -> None:
    """Compared a thousand times, then counted, across the edges of chunks too."""
    for before in (b"", ROW * 7):
        found = explain(before + STOP * 9_000)
        (match,) = found.matches
        assert match.count >= 1000
        assert match.count + found.unread == 9_000


def test_what_is_counted_hides_nothing_else() -> None:
    other = b"MXFP8 KV cache requires head_dim divisible by 32, got 80.\n"
    found = explain(other * 3 + STOP * 9_000 + other * 4 + STOP * 10)
    mine = next(match for match in found.matches if match.guard.id == "kv-hd32")
    assert (mine.line, mine.count) == (1, 7)
    scan = scanned([STOP * 9_000, other])
    assert len(scan._counted) > 0  # the rare way is taken


def test_very_many_values() -> None:
    log = "".join(
        f"MXFP8 KV cache requires head_dim divisible by 32, got {n}.\n" for n in range(100)
    )
    found = explain(log)
    assert len(found.matches) == 20 and found.unread == 80


MEASURED = """
import sys, time
from mxlab.cli import main
code = main(["explain", "--json"])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(time.process_time(), peak.split()[1], file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_a_log_of_50_mb_on_standard_input() -> None:
    """Constant memory and a few seconds, both measured by the process itself."""
    block = ROW * (1_000_000 // len(ROW))
    with subprocess.Popen(
        [sys.executable, "-c", MEASURED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        for _ in range(40):
            process.stdin.write(block)
        process.stdin.write(b"x" * 10_000_000 + b"\n" + STOP)  # a line of 10 MB, then the message
        process.stdin.close()
        answer, usage = json.loads(process.stdout.read()), process.stderr.read().split()
    assert process.returncode == 0
    assert [match["guard"] for match in answer["matches"]] == ["wsp-deepgemm"]
    assert answer["matches"][0]["line"] == answer["lines"] == 40 * block.count(b"\n") + 2
    assert float(usage[0]) < 5  # seconds of processor time; about 1 where nothing else runs
    assert int(usage[1]) < 60_000  # KiB


def test_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = STOP.decode().strip().removeprefix("RuntimeError: ")
    assert text.startswith("--")  # the message begins like an option
    assert main(["explain", text]) == 0
    out = capsys.readouterr().out
    for words in (
        "wsp-deepgemm (sglang 0.5.23",
        "RuntimeError)",
        "K = 576 % 128 = 64",
        "S6, weights",
        "Fix",
    ):
        assert words in out
    assert max(map(len, out.splitlines())) <= 100

    log = tmp_path / "server.log"
    log.write_bytes(ROW * 3 + STOP * 2)
    assert main(["explain", "--file", str(log), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["schema"], answer["verb"], answer["lines"]) == (1, "explain", 5)
    (match,) = answer["matches"]
    assert {"guard", "system", "values", "meaning", "when", "fixes", "related", "page"} <= {*match}
    assert (match["line"], match["count"], match["values"]) == (4, 2, {"n": 2880, "k": 576})

    assert main(["explain", text, "--config", "Llama-3.1-8B"]) == 0
    out = capsys.readouterr().out
    assert "no layer of the config has N = 2880, K = 576 on one rank" in " ".join(out.split())
    down = (
        "Weight input_size_per_partition = 1792 is not divisible by weight quantization block_k ="
    )
    assert main(["explain", f"{down} 128.", "--config", "Llama-3.1-8B", "--tp", "8"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "down_proj (4096 x 1792) of 32 layers at TP 8: K = 1792" in out
    assert "one text that" in out and "vllm-block-row (vllm)" in out

    assert main(["explain", "words", "that", "say", "nothing"]) == 1
    assert "No message that mxlab knows" in capsys.readouterr().out

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(STOP)))
    assert main(["explain"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([""], "the text is empty"),
        (["--file", "no such log"], "--file 'no such log': No such file or directory"),
        (["--file", "."], "Is a directory"),
        (["--file", "a\0b"], "null"),
        (["x", "--file", "y"], "both a text and --file 'y'"),
        (["x", "--tp", "8"], "--tp or --ep without --config"),
        (["x", "--config", "no such"], "no file, folder or shipped model 'no such'"),
        (["x", "--config", "Llama-3.1-8B", "--tp", "8.0"], "tp is '8.0': expected a whole number"),
        (["x", "--config", "a\0b"], "shipped model 'a\\x00b'"),
        (["\udcff\udcfe\udc80"], "binary"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["explain", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and words in captured.err


def test_empty_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["explain"]) == 2
    assert "the text is empty" in capsys.readouterr().err
