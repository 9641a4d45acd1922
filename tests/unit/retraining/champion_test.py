"""What is served, also where a file of it is damaged: the file is named, and the advice leads out."""

import datetime
import json
import pathlib
import re
import shutil

import pytest

from pipeline.base.errors import InputError
from pipeline.publishing import journal, publish, versions
from pipeline.report import terminal
from pipeline.retraining import champion, operations, page, records, status
from pipeline.retraining.records import Root
from tests.shared import plain_export
from tests.unit.retraining.settings_test import parsed

NOON = datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.UTC)
WEIGHTS = "variables/variables.data-00000-of-00001"


def served_root(path: pathlib.Path, *cycles: str, exports: bool = True) -> Root:
    """A root of cycles that ended and were published; `exports` says whether they still have theirs."""
    root = Root(path=path, name=parsed().name)
    for number, name in enumerate(cycles, 1):
        folder = root.cycle(name)
        anchor = {"version": 1, "cycle": cycles[0], "identity": cycles[0]} if number > 1 else {}
        export = plain_export.write(
            folder / "export", {**plain_export.FILES, "assets/cycle": name.encode() * 9}
        )
        digest = json.loads((export / "export.json").read_text())["digest"]
        plan = {"at": NOON.isoformat(), "anchor": anchor, "config": {"gate_anchor": 0}, "backfill": False}
        spans = [{"name": part, "roles": [part]} for part in ("training", "holdout")]
        records.write_result(folder / "plan.json", {**plan, "spans": spans, "left_out": [], "champion": {}})
        records.write_result(folder / "export.json", {"export_digest": digest})
        for stage in ("parity", "infra"):
            records.write_result(folder / f"{stage}.json", {"passed": True})
        records.write_result(folder / "decide.json", {"gate": {"metrics": [], "metric": ""}})
        version = publish.publish(export, root.serving, cycle=name, at=NOON.isoformat())
        records.add_entry(root.audit, "published", at=NOON, version=version, cycle=name)
        records.write_end(folder, "PROMOTE", at=NOON, version=version, reasons=["better"])
        if not exports:
            shutil.rmtree(export)
    return root


def found(root: Root) -> champion.Served | None:
    return champion.champion(root, records.audit_entries(root.audit))


def advice(root: Root) -> str:
    with pytest.raises(InputError) as error:
        found(root)
    return re.search(r"`pipeline\.retrain (.*) --reason=…`", error.value.action)[1]


def shown(root: Root) -> str:
    """What `status` prints, after its JSON and page were made, too."""
    known = status.survey(root, parsed(), now=NOON)
    assert json.loads(json.dumps(status.as_json(known)))["damage"] == list(known.damage)
    page.status_page(known)
    return terminal.render(status.status(known, now=NOON))


def cut(version):
    path = version / WEIGHTS
    path.write_bytes(path.read_bytes()[:7])
    return path


def flip(version):
    path = version / WEIGHTS
    path.write_bytes(path.read_bytes().replace(b"w", b"v", 1))
    return path


def lose(version):
    (version / "saved_model.pb").unlink()
    return version / "saved_model.pb"


def retell(version):
    path = version / "publication.json"
    path.write_text(path.read_text().replace('"c', '"d'))
    return path


def forget(version):
    (version / "publication.json").unlink()
    return version / "publication.json"


def remove(version):
    shutil.rmtree(version)
    return version


HARMS = [cut, flip, lose, retell, forget, remove]


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_champion_is_named_with_its_file_and_status_answers(tmp_path, harm):
    root = served_root(tmp_path, "c1", "c2")
    path = harm(root.serving / "2")
    named = "no such folder" if harm is remove else str(path)
    with pytest.raises(InputError, match=rf"the champion, version 2 of .*received .*{re.escape(named)}"):
        found(root)
    text = shown(root)
    assert "what is served is damaged" in text
    assert f"damaged: the champion, version 2 of {root.serving}" in text
    assert re.search("c1 +2026-11-01 12:00 +PROMOTE", text)


@pytest.mark.parametrize("harm", HARMS)
def test_what_was_served_is_published_again_from_its_export(tmp_path, harm):
    root = served_root(tmp_path, "c1", "c2")
    harm(root.serving / "2")
    assert advice(root) == "promote --cycle=c2"  # acts_test.py follows it with a model
    version = publish.publish(root.cycle("c2") / "export", root.serving, cycle="c2", at=NOON.isoformat())
    records.add_entry(root.audit, "published", at=NOON, version=version, cycle="c2")
    assert (found(root).version, found(root).cycle) == (3, "c2")


@pytest.mark.parametrize("harm", HARMS)
def test_without_its_export_the_newest_sound_version_is_served_again(tmp_path, harm):
    root = served_root(tmp_path, "c1", "c2", exports=False)
    harm(root.serving / "2")
    assert advice(root) == "rollback --to=1"
    assert operations.rollback(tmp_path, parsed(), to=1, reason="damaged", clock=lambda: NOON) == 3
    assert (found(root).version, found(root).cycle) == (3, "c1")


def test_the_same_bytes_under_another_number_come_first(tmp_path):
    root = served_root(tmp_path, "c1", "c2")
    operations.rollback(tmp_path, parsed(), to=1, reason="better", clock=lambda: NOON)
    flip(root.serving / "3")
    assert advice(root) == "rollback --to=1"
    assert operations.rollback(tmp_path, parsed(), to=1, reason="damaged", clock=lambda: NOON) == 4
    assert found(root).cycle == "c1"


@pytest.mark.parametrize("harm", HARMS)
def test_where_nothing_is_sound_the_next_cycle_makes_the_first_model(tmp_path, harm):
    root = served_root(tmp_path, "c1", "c2", exports=False)
    with pytest.raises(InputError, match="no version is sound"):
        operations.rollback(tmp_path, parsed(), to=0, reason="a try", clock=lambda: NOON)
    for version in ("1", "2"):
        harm(root.serving / version)
    assert advice(root) == "rollback --to=0"
    assert operations.rollback(tmp_path, parsed(), to=0, reason="all is lost", clock=lambda: NOON) == 0
    assert found(root) is None
    champion.require_same_anchor(root, 0, [cycle.plan for cycle in records.cycle_history(root)])
    assert champion.anchor(root, 0) is None
    assert "nothing is published yet" in shown(root)
    export = plain_export.write(tmp_path / "next")
    number = publish.publish(export, root.serving, cycle="c3", at=NOON.isoformat())
    assert number == (1 if harm is remove and not versions.versions(root.serving) else 3)


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_anchor_is_named_and_another_may_be_set(tmp_path, harm):
    root = served_root(tmp_path, "c1", "c2")
    path = harm(root.serving / "1")
    named = "no such folder" if harm is remove else re.escape(str(path))
    plans = [cycle.plan for cycle in records.cycle_history(root)]
    with pytest.raises(InputError, match=rf"the anchor, version 1 .*{named}.*gate_anchor .*such as 2"):
        champion.require_same_anchor(root, 0, plans)
        champion.anchor(root, 0)
    champion.require_same_anchor(root, 2, plans)
    assert champion.anchor(root, 2).cycle == "c2"


@pytest.mark.parametrize(
    "name",
    ["audit.jsonl", "cycles/c1/plan.json", "cycles/c2/ended.json", f"serving/model/{journal.FILE_NAME}"],
)
def test_status_answers_where_a_record_is_damaged_and_the_record_may_be_deleted(tmp_path, name):
    root = served_root(tmp_path, "c1", "c2")
    path = tmp_path / name.replace("model", root.name)
    text = path.read_text()
    path.write_text(text.replace(":", ";", 1))
    assert f"{path}: received" in shown(root)
    with pytest.raises(InputError, match="delete"):
        champion.champion(root, records.audit_entries(root.audit)), records.cycle_history(root)
    if name == "audit.jsonl":
        path.write_text(path.read_text().partition("\n")[2])
    else:
        path.unlink()
    assert "damaged" not in shown(root)
    assert found(root).version == 2


def test_status_tells_what_is_ahead_of_the_clock(tmp_path):
    root = served_root(tmp_path, "c1")
    assert "ahead" not in shown(root)
    records.add_entry(root.audit, "held", at=NOON + datetime.timedelta(days=3000))
    assert "the log is ahead of the clock, up to 2035-01-18 12:00: `clock --reason=…`" in shown(root)
