"""Writes MODEL_CARD.md (data, quality and limits of a model, and how to reproduce it) and lineage.json."""

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping

from pipeline.gate.slices import NOT_EVALUATED
from pipeline.retraining.job import Job
from pipeline.retraining.records import spans_of
from pipeline.retraining.settings import CHAMPION

CARD_FILE_NAME = "MODEL_CARD.md"
_SLICES = 20
_MARKUP = re.compile(r"[\\|*[\]]")


def write_card(job: Job, *, promoted_by: str) -> str:
    """Returns the card as Markdown, the same text for the same cycle."""
    return "\n".join(_lines(job, promoted_by)) + "\n"


def _lines(job: Job, promoted_by: str) -> Iterator[str]:
    plan, data, export, decided = job.plan, *(job.result(stage) for stage in ("data", "export", "decide"))
    gate = decided["gate"]
    yield f"# {_plain(job.root.name)}, cycle {job.id}"
    yield ""
    size = f"{export['parameters']:,} parameters"
    yield f"A {export['task']} model of {size}, exported at step {export['step']:,}."
    yield f"Cycle begun {plan['at'][:16]} UTC."
    yield ""
    yield "## Decision"
    yield ""
    if promoted_by:
        yield f"The gate said {decided['decision']}; a person promoted the model: {_plain(promoted_by)}"
        yield ""
    yield from (f"- {_plain(reason)}" for reason in decided["reasons"])
    yield ""
    yield "## Data"
    yield ""
    yield from _data(plan, data)
    yield ""
    yield "## Metrics"
    yield ""
    clusters = "" if gate["clusters"] is None else f", in {gate['clusters']:,} clusters"
    if gate.get("distinct") is not None:
        clusters = f", of which {gate['distinct']:,} are no copies of another one"
    confidence = f"{100 * gate['rules']['confidence']:g}%"
    yield f"On {gate['rows']:,} rows of the holdout{clusters}; intervals of {confidence}."
    yield ""
    yield from _metrics(gate)
    yield ""
    yield from _slices(gate)
    yield "## Limits"
    yield ""
    yield from _limits(job)
    yield ""
    yield "## How to make it again"
    yield ""
    yield from _again(job)


def _data(plan: Mapping, data: Mapping) -> Iterator[str]:
    yield "| span | role | rows | dataset | raw data |"
    yield "|---|---|---|---|---|"
    for span in plan["spans"]:
        rows = sum(span["rows"].values())
        digests = f"{span['dataset_digest'][:16]} | {span['raw_digest'][:16]}"
        yield f"| {_plain(span['name'])} | {' and '.join(span['roles'])} | {rows:,} | {digests} |"
    yield ""
    for role in ("training", "holdout"):
        part = data[role]
        yield f"- {role}: splits {part['split']}, digest {part['dataset_digest']}"
    overlap = data["overlap"]
    yield f"- rows of the holdout that training has too: {overlap['rows']:,} ({overlap['fraction']:.2%})"
    for span in plan["left_out"]:
        yield f"- left out: span {_plain(span['name'])}, {_plain(span['why'])}"


def _metrics(gate: Mapping) -> Iterator[str]:
    other = "prior" if gate["is_first"] else "champion"
    yield f"| metric | this model | better than the {other} by |"
    yield "|---|---|---|"
    for metric in gate["metrics"]:
        better = metric["differences"].get(other)
        yield f"| {metric['name']} | {_interval(metric['values']['challenger'])} | {_interval(better)} |"


def _slices(gate: Mapping) -> Iterator[str]:
    found = sorted((each for each in gate["slices"]["results"] if each["values"]), key=_gained)
    if not found:
        return
    yield "## Slices"
    yield ""
    if len(found) > _SLICES:
        yield f"{_SLICES} of {len(found):,}; those that gained least on the champion come first."
        yield ""
    yield f"| slice | rows | {gate['metric']} |"
    yield "|---|---|---|"
    for each in found[:_SLICES]:
        value = _interval(each["values"].get("challenger"))
        yield f"| {_plain(each['feature'])} = {_plain(each['value'])} | {each['rows']:,} | {value} |"
    yield ""


def _limits(job: Job) -> Iterator[str]:
    """Yields a sentence for everything that was not tested."""
    gate, infra = job.result("decide")["gate"], job.result("infra")
    slices = gate["slices"]
    open_ones = sum(each["verdict"] == NOT_EVALUATED for each in slices["results"])
    open_ones += sum(slices["left_out"].values())
    holdout = [span["name"] for span in spans_of(job.plan, "holdout")]
    spans = " to ".join(map(_plain, dict.fromkeys((holdout[0], holdout[-1]))))
    yield f"- It was evaluated on data of {spans} only; see the drift in the report."
    if open_ones:
        why = "they are too small" if gate["is_first"] is False else "there was none, or they are too small"
        yield f"- Slices that were not compared with a champion: {open_ones:,}; {why}."
    elif not gate["rules"]["slices"]:
        yield "- No slice was evaluated: config.gate.slices is empty."
    if infra.get("measured"):
        median = infra["measured"]["latency"][0]["median_ms"]
        yield f"- One row took {median:.2f} ms (median) on the machine of the cycle, without a network."


def _again(job: Job) -> Iterator[str]:
    train, champion = job.plan["config"]["train"], job.plan["champion"].get("cycle")
    warm = [f"--warm_start=CYCLES/{champion}/run"] if train["start"] == CHAMPION and champion else []
    flags = shlex.join([f"--config={train['config']}", *train["flags"], *warm])
    yield f"Every input is in lineage.json; the code's digest is {job.plan['code']}."
    yield ""
    yield "```"
    yield f"python -m pipeline.train {flags} \\"
    yield "    --dataset=SPAN1 --dataset=SPAN2 … --workdir=RUN"
    yield "python -m pipeline.export --workdir=RUN --output=EXPORT"
    yield "```"


def _gained(each: Mapping) -> float:
    """Returns the gain over the champion; infinity where there was no comparison."""
    return each["difference"]["value"] if each["difference"] else math.inf


def _interval(each: Mapping | None) -> str:
    if not each or each["value"] is None:
        return "–"
    if each["low"] is None:
        return f"{each['value']:.5g}"
    return f"{each['value']:.5g} ({each['low']:.5g} to {each['high']:.5g})"


def _plain(text: str) -> str:
    """Escapes a text from the data, so that it is one line, ends no cell and starts no markup."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split())).replace("<", "&lt;").replace("`", "'")


# --- lineage.json: the steps from the raw files to the published version, with digests.


LINEAGE_FILE_NAME = "lineage.json"
FORMAT = "penstock.lineage/1"


def write_lineage(job: Job) -> str:
    """Returns the lineage as JSON, the same text for the same cycle."""
    plan = job.plan
    document = {
        "format": FORMAT,
        "model": job.root.name,
        "raw": [
            {"span": span["name"], "path": span["raw"], "sha256": span["raw_digest"]}
            for span in plan["spans"]
        ],
        "spans": [
            {
                "span": span["name"],
                "from_raw": span["raw_digest"],
                "dataset_digest": span["dataset_digest"],
                "roles": span["roles"],
                "rows": span["rows"],
            }
            for span in plan["spans"]
        ],
        "cycle": {
            "id": job.id,
            "begun": plan["at"],
            "training_digest": job.result("data")["training"]["dataset_digest"],
            "holdout_digest": job.result("data")["holdout"]["dataset_digest"],
            "code": plan["code"],
            "settings": plan["settings"],
            "champion": plan["champion"],
            "anchor": plan["anchor"],
        },
        "export": {"digest": job.result("export")["export_digest"], "step": job.result("export")["step"]},
    }
    return json.dumps(document, indent=2) + "\n"
