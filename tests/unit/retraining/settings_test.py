"""Values of a config that cannot be meant are named."""

import shutil

import pytest
from ml_collections import ConfigDict

from pipeline.base.errors import InputError
from pipeline.configs import base as experiments
from pipeline.configs.retraining import base
from pipeline.retraining import settings
from pipeline.retraining.settings import check_types
from tests.shared.fixtures.schedules import COMMANDS


def parsed(**keys):
    config = base.get_config()
    with config.unlocked():
        for key, value in keys.items():
            group, _, name = key.partition("__")
            target = config[group] if name else config
            target[name or group] = value
    return settings.parse(config.to_dict(), COMMANDS, like=base.get_config().to_dict())


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"spans__unusable": "ignore"}, r"config\.spans\.unusable: received 'ignore'; expected skip or stop"),
        ({"holdout__kind": "test"}, r"config\.holdout\.kind"),
        ({"train__start": "warm"}, r"config\.train\.start: received 'warm'; expected scratch or champion"),
        ({"train__config": "nowhere.py"}, r"config\.train\.config"),
        ({"export__formats": ("tflite",)}, r"config\.export\.formats: received 'tflite'; expected .* litert"),
        ({"triggers__cron": "every day"}, r"config\.triggers\.cron.*0 3"),
        ({"window__last": -1}, r"config\.window\.last: received -1; expected a number from 0 on"),
        ({"keep__versions": 0}, r"config\.keep\.versions"),
        ({"infra__speed": 1}, r"config\.infra\.speed"),
        ({"parity__rows": 0}, "rows"),
        ({"gate__rule": "best"}, "rule"),
        ({"gate__slice": ("a",)}, "slice"),
        ({"triggers__cron": "0 0 30 2 *"}, r"config\.triggers\.cron"),
        ({"holdout__most_seen": -1.0}, r"config\.holdout\.most_seen"),
        ({"infra__calls": "200"}, r"config\.infra\.calls: received '200'; expected a whole number"),
        ({"infra__calls": None}, r"config\.infra\.calls"),
        ({"infra__median_ratio": float("nan")}, r"config\.infra\.median_ratio"),
        ({"infra__process_mib": 0.5}, r"config\.infra\.process_mib: received 0.5; expected a whole number"),
        ({"parity__flipped": True}, r"config\.parity\.flipped: received True; expected a number"),
        ({"publish_to": "s3://bucket/taxi"}, r"config\.publish_to: received 's3://bucket/taxi'"),
    ],
)
def test_a_value_that_cannot_be_meant_is_named(keys, named):
    with pytest.raises(InputError, match=named):
        parsed(**keys)


def test_defaults_can_be_meant():
    assert parsed().gate.rule == "superiority"


def test_a_root_whose_name_has_wildcards_is_taken_as_it_is(tmp_path):
    from pipeline.retraining import datasets
    from pipeline.retraining.records import Root

    path = tmp_path / "taxi[1]*"
    (path / "raw" / "date=1").mkdir(parents=True)
    (path / "schema.json").write_text("{}")
    root = Root(path=path, name="taxi")
    assert [span.name for span in datasets.survey_spans(root, parsed().sources(root))] == ["1"]


def test_only_what_changes_a_cycle_changes_its_digest():
    same = parsed(notify__command="mail", keep__versions=9, triggers__cron="0 3 * * *")
    assert parsed().digest() == same.digest()
    for keys in (
        {"train__flags": ("--config.seed=1",)},
        {"gate__margin": 0.1, "gate__rule": "non_inferiority"},
        {"holdout__most_seen": 0.5},
        {"train__config": "pipeline/configs/taxi_wide_deep.py"},
    ):
        assert parsed(**keys).digest() != parsed().digest()


def test_what_an_experiment_begins_with_is_part_of_the_digest(monkeypatch):
    """Most values of pipeline/configs/tabular.py stand in base.py."""
    before, made = parsed().digest(), experiments.get_config

    def clipped():
        config = made()
        config.optimizer.clip_norm = 1e-5
        return config

    monkeypatch.setattr(experiments, "get_config", clipped)
    assert parsed().digest() != before


def test_where_an_experiment_lies_is_no_part_of_the_digest(tmp_path):
    path = tmp_path / "moved.py"
    shutil.copy(parsed().train.config, path)
    assert parsed(train__config=str(path)).digest() == parsed().digest()


def test_own_code_of_an_experiment_is_part_of_the_digest_and_its_place_is_not(tmp_path):
    def digest(folder: str, width: int) -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "own_net.py").write_text(f"def build(width={width}): ...\n")
        path = shutil.copy(parsed().train.config, tmp_path / folder / "config.py")
        flags = ("--config.model.name=own_net:build", "--config.model.width=3", "--strategy=auto")
        return parsed(train__config=str(path), train__flags=flags).digest()

    assert digest("here", 4) == digest("there", 4) != digest("here", 5)
    (tmp_path / "there" / "own_net.py").unlink()
    with pytest.raises(InputError, match=r"model\.name=own_net:build: received no module own_net"):
        path = str(tmp_path / "there" / "config.py")
        parsed(train__config=path, train__flags=("--config.model.name=own_net:build",)).digest()


def test_an_experiment_that_gives_no_config_is_named(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("")
    with pytest.raises(
        InputError, match=r"config\.train\.config=.*empty\.py: received KeyError: 'get_config'"
    ):
        parsed(train__config=str(path)).digest()


def test_a_window_that_ends_elsewhere_leaves_the_settings_as_they_are():
    before = parsed()
    assert settings.ending_at(before, "2026-11-02").window.end == "2026-11-02"
    assert before.window.end == ""


# A config is held against the shared one, setting by setting.


def config_with(key, value):
    config = base.get_config()
    group, _, name = key.rpartition(".")
    target = config[group] if group else config
    with target.ignore_type():
        target[name] = value
    return config


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("window.last", "3", "a whole number"),
        ("window.last", 1.5, "a whole number"),
        ("window.last", True, "a whole number"),
        ("keep.versions", float("inf"), "a whole number"),
        ("holdout.most_seen", float("nan"), "a finite number"),
        ("drift.hold", float("inf"), "a finite number"),
        ("triggers.drift", None, "a finite number"),
        ("window.end", 20261101, "a text"),
        ("name", "\ud800", "a text"),
        ("notify.command", "a\0b", "a text"),
        ("spans.exclude", "2026-11-09", "texts, such as"),
        ("train.flags", (1,), "texts, such as"),
        ("window", 3, "a group of settings"),
        ("window", ConfigDict(), r"window.end: received nothing; expected a value"),
        ("window.lats", 3, r"window.lats: .* Did you mean .*last"),
        ("gaet", 3, r"config.gaet: "),
    ],
)
def test_what_is_no_setting_of_that_type_is_named(key, value, named):
    with pytest.raises(InputError, match=rf"config\.{key}.*{named}|{named}"):
        check_types(config_with(key, value).to_dict(), base.get_config().to_dict())


@pytest.mark.parametrize(
    ("key", "flags"),
    [
        ("spans__convert", ("--layout=blocks", "--schema=other.json")),
        ("train__flags", ("--workdir=elsewhere",)),
        ("train__flags", ("--config=other.py",)),
    ],
)
def test_a_flag_that_a_cycle_gives_itself_is_refused_before_the_first_night(key, flags):
    with pytest.raises(InputError, match=f"{key.replace('__', '.')}.*none of the flags that a cycle gives"):
        parsed(**{key: flags})


def test_a_whole_number_beyond_all_floats_is_named():
    config = base.get_config()
    config.triggers = ConfigDict({**config.triggers.to_dict(), "age_days": 10**400})
    with pytest.raises(InputError, match=r"config\.triggers\.age_days: .* a finite number"):
        check_types(config.to_dict(), base.get_config().to_dict())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("drift.hold", 1),
        ("window.last", 10**30),
        ("spans.exclude", ["a"]),
        ("name", "ünï"),
        ("gate.margin", "x"),
    ],
)
def test_what_can_be_meant_passes(key, value):
    check_types(config_with(key, value).to_dict(), base.get_config().to_dict())
