"""PUBLISH: a promoted model becomes the next version. VERIFY: it serves, or it is taken back."""

from pipeline.data.dataset import export_manifest
from pipeline.data.errors import InputError
from pipeline.release.cycles import store
from pipeline.release.cycles.planning.champion import PUBLISHED, TAKEN_BACK
from pipeline.release.cycles.records import audit
from pipeline.release.cycles.records.ended import PROMOTE
from pipeline.release.cycles.stages import held
from pipeline.release.cycles.stages.documents import card, lineage
from pipeline.release.cycles.stages.infra import checked
from pipeline.release.cycles.stages.job import Job
from pipeline.release.infra import requests as requests_lib
from pipeline.release.publish import publish as publish_lib
from pipeline.release.publish import versions


def publish(job: Job) -> dict:
    """The version, or why there is none.

    Raises:
      HeldError: the file HOLD appeared since the cycle began.
      InputError: the export is not the one that was judged.
    """
    decided = job.said("decide")
    if decided["decision"] != PROMOTE:
        return {"version": None, "why": f"the decision is {decided['decision']}"}
    if not job.publishes:
        return {"version": None, "why": "a backfill publishes only with --publish"}
    held.check(job)
    return {"version": put(job, promoted_by="")}


def put(job: Job, *, promoted_by: str) -> int:
    """Publishes the cycle's export with its documents, to the store too; returns the version. Again, it
    returns the same.

    Args:
      promoted_by: the reason that a person gave, where the gate did not promote it.

    Raises:
      InputError: the export is not the one that was judged.
    """
    at = job.now()
    _check_judged(job)
    job.root.serving.mkdir(parents=True, exist_ok=True)
    version = publish_lib.publish(
        job.export,
        job.root.serving,
        cycle=job.id,
        documents={
            card.FILE_NAME: card.written(job, promoted_by=promoted_by).encode(errors="backslashreplace"),
            lineage.FILE_NAME: lineage.written(job).encode(),
        },
        at=at.isoformat(),
    )
    audit.add_once(
        job.root.audit,
        PUBLISHED,
        at=at,
        cycle=job.id,
        version=version,
        why=promoted_by or "the gate promoted it",
    )
    store.follow(job.root, job.settings, at=at)
    return version


def _check_judged(job: Job) -> None:
    """Raises InputError where the export is another than when it was judged."""
    judged, there = job.said("export")["export_digest"], export_manifest.open_export(job.export)["digest"]
    if judged != there:
        raise InputError(
            f"export {job.export}",
            received=f"digest {there[:12]}",
            expected=f"digest {judged[:12]}, which cycle {job.id} has judged",
            action="Restore it from a copy. What was judged stands in its receipts.",
        )


def verify(job: Job) -> dict:
    """What a fresh process, and the server of config.serving_url, make of the published version.

    A version that fails is taken back: the one before is the newest again.
    """
    version = job.said("publish")["version"]
    if version is None:
        return {"version": None, "passed": True}
    return {"version": version, **verified(job, version)}


def verified(job: Job, version: int) -> dict:
    """Checks a version where it is served; takes it back where it fails."""
    reasons = _failures(job, version)
    if reasons:
        publish_lib.take_back(job.root.serving, version, reason="; ".join(reasons), at=job.now().isoformat())
        audit.add_once(
            job.root.audit, TAKEN_BACK, at=job.now(), cycle=job.id, version=version, why="; ".join(reasons)
        )
        store.follow(job.root, job.settings, at=job.now())
    return {"passed": not reasons, "reasons": reasons}


def _failures(job: Job, version: int) -> list[str]:
    if version not in versions.versions(job.root.serving):  # a killed process took it back already
        return ["it failed before, and was taken back"]
    directory = versions.path_of(job.root.serving, version)
    found = [*checked(job, directory, against=None).reasons]
    if url := job.settings.config.serving_url:
        from pipeline.release.infra.servers import ask

        found += ask.ask(url, requests_lib.load(job.export), model=job.root.name, version=version).reasons
    return found
