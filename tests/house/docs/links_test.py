"""What a document names exists: files that it links to, headings, paths, modules and flags in `code`."""

import re

from tests.house.docs import documents, known_flags

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?:beam_jobs|pipeline|models|tests|benchmarks|deploy|demo|docs)/[\w./*-]*")
_MODULE = re.compile(r"(?:python -m )?((?:beam_jobs|pipeline|models|tests|benchmarks)(?:\.\w+)+)(?<!\.pb)")
_FLAG = re.compile(r"(?<![\w-])--([a-z]\w*)")
_PLACEHOLDER = "NAME"  # of a file that the reader is to write
# Flags of pip, git, uv and the like, of which a document may speak.
OF_OTHERS = {"logdir", "require"}


def anchors(name: str) -> set[str]:
    """The headings of a document as links name them."""
    titles = re.findall(r"^#+ (.+)$", documents.prose(name), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(name: str, text: str) -> list[str]:
    wrong = []
    for target in _LINK.findall(text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (documents.ROOT / name).parent / path if path else documents.ROOT / name
        if not file.exists():
            wrong.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(str(file.resolve().relative_to(documents.ROOT))):
            wrong.append(f"{target}: no such heading")
    return wrong


def missing_names(text: str) -> list[str]:
    """Paths, modules and flags in the `code` of a text that do not exist."""
    wrong = []
    for code in _CODE.findall(text):
        if (
            _PATH.fullmatch(code)
            and _PLACEHOLDER not in code
            and not list(documents.ROOT.glob(code.rstrip("/")))
        ):
            wrong.append(f"{code}: no such file")
        if (named := _MODULE.fullmatch(code)) and not exists(named[1]):
            wrong.append(f"{code}: no such module")
        if code.startswith(("--", "python -m ")):  # others' commands have flags of their own
            wrong += [f"--{flag}: no command has this flag" for flag in _FLAG.findall(code) if unknown(flag)]
    return wrong


def exists(dotted: str) -> bool:
    """Whether `dotted` is a module, or a name in one."""
    path = documents.ROOT / dotted.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    module, name = path.parent.with_suffix(".py"), path.name
    return (
        module.exists()
        and re.search(rf"^(?:def|class) {name}\b|^{name} ", module.read_text(), re.M) is not None
    )


def unknown(flag: str) -> bool:
    known = OF_OTHERS | {*known_flags.of_all()}
    return flag not in known and flag.removeprefix("no") not in known  # absl's --noFLAG


def test_links_lead_somewhere():
    broken = {name: broken_links(name, documents.prose(name)) for name in documents.names()}
    assert not (wrong := {name: found for name, found in broken.items() if found}), wrong


def test_named_paths_modules_and_flags_exist():
    missing = {name: missing_names(documents.prose(name)) for name in documents.names()}
    assert not (wrong := {name: found for name, found in missing.items() if found}), wrong


def test_paths_in_commands_that_are_not_run_exist():
    not_run = [block for name in documents.names() for block in documents.blocks(name) if block.reason]
    texts = [(block.where, re.sub(r"--output=\S+", "", block.text)) for block in not_run]
    words = {(where, word) for where, text in texts for word in re.findall(r"[^\s=]+", text)}
    paths = sorted((where, word) for where, word in words if _PATH.fullmatch(word))
    missing = [(where, word) for where, word in paths if not list(documents.ROOT.glob(word.rstrip("/")))]
    assert not missing, f"commands that no test runs name {missing}"


def test_planted_mistakes_are_found():
    assert broken_links("README.md", "[a](docs/no-such.md), [b](README.md#no-such)") == [
        "docs/no-such.md: no such file",
        "README.md#no-such: no such heading",
    ]
    assert missing_names("`pipeline/data/old.py`, `python -m beam_jobs.comvert` and `--no_such=1`") == [
        "pipeline/data/old.py: no such file",
        "python -m beam_jobs.comvert: no such module",
        "--no_such: no command has this flag",
    ]
