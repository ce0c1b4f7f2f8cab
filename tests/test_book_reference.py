"""What the reference pages and recipes say is so: names, verbs, flags, formats, addresses."""

import re
import shlex
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest
import yaml
from docutils import nodes  # type: ignore[import-untyped]

import mxlab
from book.site import page_head, reference_commands, reference_pages
from book.site.glossary_links import terms
from book.site.reference_formats import FORMATS
from mxlab.cli import VERBS, _parser
from mxlab.hardware import ALIASES, GPUS
from mxlab.layout import LAYOUTS, layout
from mxlab.models.quantization import describe_quantization
from mxlab.profiles import profiles

ROOT = Path(__file__).parents[1]
WRITTEN = [
    *sorted((ROOT / "book/reference").glob("*.md")),
    *sorted((ROOT / "book/howto").glob("*.md")),
]
TEXTS = {
    path.name: path.read_text(encoding="utf-8") for path in [*WRITTEN, ROOT / "CONTRIBUTING.md"]
}
COMMANDS = sorted(
    {line for text in TEXTS.values() for line in re.findall(r"^ *\$ mxlab (.+)$", text, re.M)}
)


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return {name: "\n".join(lines()) for name, lines in reference_pages.PAGES.items()}


def test_every_public_name_and_module_of_the_api_is_on_its_page(made: dict[str, str]) -> None:
    for name in mxlab.__all__:
        assert name == "__version__" or re.search(rf"::? mxlab\.{name}$", made["api"], re.M), name
    for _, names in reference_commands.API.values():
        for name in names:
            module, _, leaf = name.rpartition(".")
            assert (import_module(f"mxlab.{module}") if module else mxlab).__getattribute__(leaf)


def test_every_verb_is_there_with_all_its_options(made: dict[str, str]) -> None:
    for verb in VERBS:
        section = made["cli"].partition(f"(verb-{verb})=")[2].partition("\n(verb-")[0]
        options = [one for action in _parser(verb)._actions for one in action.option_strings]
        assert len(options) > 1
        for option in options:
            assert re.search(rf"{option}\b", section), f"{verb} {option}"


def test_every_row_of_the_tables_is_there(made: dict[str, str]) -> None:
    assert set(re.findall(r"^\| `([^`]+)` \|", made["profiles"], re.M)) == set(profiles())
    assert re.findall(r"^## `(\w+)`$", made["layouts"], re.M) == list(LAYOUTS)
    assert set(re.findall(r"^\| `([^`]+)` \|", made["devices"], re.M)) == set(GPUS)
    assert all(f"`{alias}`" in made["devices"] for alias in ALIASES)
    for row in profiles().values():
        assert f"version {row.version.split()[0]}" in made["profiles"].replace("\\", "")


def test_each_layout_s_picture_has_words_of_its_own(made: dict[str, str]) -> None:
    alts = re.findall(r'<img [^>]*alt="([^"]+)"', made["layouts"])
    assert len(set(alts)) == len(LAYOUTS)
    for name, alt in zip(LAYOUTS, alts, strict=True):
        size = layout(name).nbytes(40, 10)
        assert name in alt and (f"{size:,} bytes" in alt or name == "te_columnwise")


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_pages_are_understood(command: str) -> None:
    verb, *rest = shlex.split(command.partition("<")[0])
    assert verb in VERBS
    _parser(verb).parse_args(rest)


def test_there_are_commands_and_targets_that_exist() -> None:
    assert len(COMMANDS) > 12
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {
        word
        for text in TEXTS.values()
        for line in re.findall(r"^ *\$ make (.+)$", text, re.M)
        for word in line.split()
        if "=" not in word
    }
    assert targets == {"lab", "book", "serve", "test"}
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets)


CLAIMS: dict[str, tuple[dict[str, object], str]] = {
    "native MXFP8": ({"quant_method": "mxfp8"}, "MXFP8"),
    "ModelOpt MXFP8": ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, "MXFP8"),
    "ModelOpt mixed": (
        {
            "quant_method": "modelopt",
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {"model.layers.0.mlp.up_proj": {"quant_algo": "MXFP8"}},
        },
        "mixed",
    ),
    "compressed-tensors MXFP8": (
        {
            "quant_method": "compressed-tensors",
            "format": "mxfp8-quantized",
            "config_groups": {
                "group_0": {
                    "targets": ["Linear"],
                    "weights": {
                        "num_bits": 8,
                        "type": "float",
                        "strategy": "group",
                        "group_size": 32,
                        "symmetric": True,
                        "scale_dtype": "torch.uint8",
                    },
                }
            },
        },
        "MXFP8",
    ),
    "Quark MXFP8, 2-D": (
        {
            "quant_method": "quark",
            "global_quant_config": {
                "weight": {
                    "dtype": "fp8_e4m3",
                    "qscheme": "per_block",
                    "block_size": [32, 32],
                    "scale_format": "e8m0",
                }
            },
        },
        "MXFP8",
    ),
    "block FP8": ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "FP8 block"),
    "block FP8, powers of two": (
        {"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"},
        "FP8 block",
    ),
    "per-tensor FP8": ({"quant_method": "fp8", "weight_block_size": None}, "FP8 tensor"),
    "MXFP4": ({"quant_method": "mxfp4"}, "MXFP4"),
}


@pytest.mark.parametrize("name", [row[0] for row in FORMATS])
def test_mxlab_reads_each_format_as_the_page_says(name: str) -> None:
    config, weights = CLAIMS[name]
    found = describe_quantization({"quantization_config": config})
    assert found is not None and found.weights == weights
    recognised = next(row[1] for row in FORMATS if row[0] == name)
    for key in re.findall(r"(?:^|, )([a-z_]+): ", recognised):
        assert key in config, key


def test_every_page_is_in_the_table_of_contents_and_the_other_way_round() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    files = re.findall(r"'file': '([^']+)'", str(toc))
    assert len(files) == len(set(files))
    pages = {path.relative_to(ROOT).with_suffix("").as_posix() for path in WRITTEN}
    assert pages <= set(files)
    for file in files:
        there = any((ROOT / f"{file}{end}").exists() for end in (".md", ".ipynb"))
        assert there or file.startswith("book/guards/"), file


def test_the_glossary_is_in_order_and_defines_each_word() -> None:
    assert len(terms()) > 35
    assert list(terms()) == sorted(terms(), key=lambda term: term.replace("_", " "))
    body = (ROOT / "book/reference/glossary.md").read_text(encoding="utf-8")
    for term in terms().values():
        assert re.search(rf"^{re.escape(term)}\n  \S.*\.", body, re.M | re.S), term


@pytest.mark.parametrize("address", ["https://a.example/b", "https://a.example/b/"])
def test_the_address_of_the_site_ends_in_one_slash(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SimpleNamespace(html_baseurl="")
    monkeypatch.setenv("MXLAB_SITE_URL", address)
    page_head.read_address(None, config)
    assert config.html_baseurl == "https://a.example/b/"


@pytest.mark.parametrize("address", ["a.example", 'https://a"><script>', "javascript:alert(1)"])
def test_what_is_no_address_stops_the_build(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXLAB_SITE_URL", address)
    with pytest.raises(SystemExit, match="expected https"):
        page_head.read_address(None, SimpleNamespace(html_baseurl=""))


def test_a_description_is_the_first_sentence_of_the_text_and_ends_at_a_word() -> None:
    tree = nodes.section("", nodes.title("", "A title that is long enough to be taken for text"))
    tree += nodes.note("", nodes.paragraph("", "A note that is long enough to be taken for text."))
    tree += nodes.paragraph("", "word " * 60)
    said = page_head.description(tree)
    assert said.startswith("word word") and said.endswith("word...")
    assert 140 < len(said) <= page_head.MOST
    context = {"metatags": '<meta name="x" />'}
    app = SimpleNamespace(config=SimpleNamespace(html_baseurl="https://a.example/b/"))
    page_head.describe(
        app, "a", "", context, nodes.section("", nodes.paragraph("", 'A "<b>" ' * 9))
    )
    assert context["metatags"].startswith('<meta name="x" />')
    assert "&#34;&lt;b&gt;&#34;" in context["metatags"]
    lost = (ROOT / "book/site/templates/404.html").read_text(encoding="utf-8")
    assert '<base href="https://a.example/b/">' in jinja2.Template(lost).render(context)
    assert "<base" not in jinja2.Template(lost).render(site_address="")


def test_citation_and_contributing_say_what_is() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == mxlab.__version__
    text = TEXTS["CONTRIBUTING.md"]
    assert len(text.splitlines()) <= 45
    for path in re.findall(r"`([\w./]+(?:/|\.\w+))`|\(([\w/]+\.md)\)", text):
        name = path[0] or path[1]
        assert (ROOT / name).exists() or (ROOT / "mxlab" / name).exists(), name


def test_the_workflow_builds_with_the_site_s_address() -> None:
    flow = yaml.safe_load((ROOT / ".github/workflows/pages.yml").read_text(encoding="utf-8"))
    steps = [step for job in flow["jobs"].values() for step in job["steps"]]
    build = next(step for step in steps if step.get("run") == "make book")
    assert "base_url" in build["env"]["MXLAB_SITE_URL"]
    upload = next(step for step in steps if "upload-pages" in step.get("uses", ""))
    assert upload["with"]["path"] == "_build/html"
