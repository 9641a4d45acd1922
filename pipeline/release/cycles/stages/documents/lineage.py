"""lineage.json: from the raw files to the published version, each step with its digest."""

import json

from pipeline.release.cycles.stages.job import Job

FILE_NAME = "lineage.json"
FORMAT = "penstock.lineage/1"


def written(job: Job) -> str:
    """The same text for the same cycle."""
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
            "training_digest": job.said("data")["training"]["dataset_digest"],
            "holdout_digest": job.said("data")["holdout"]["dataset_digest"],
            "code": plan["code"],
            "settings": plan["settings"],
            "champion": plan["champion"],
            "anchor": plan["anchor"],
        },
        "export": {"digest": job.said("export")["export_digest"], "step": job.said("export")["step"]},
    }
    return json.dumps(document, indent=2) + "\n"
