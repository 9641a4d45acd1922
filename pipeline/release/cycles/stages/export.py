"""EXPORT: pipeline.export in a process of its own."""

from pipeline.data.dataset import export_manifest
from pipeline.release.cycles import children
from pipeline.release.cycles.stages.job import Job


def export(job: Job) -> dict:
    """Digest, step and size of the exported model. Raises as `children.run`."""
    if not (job.export / export_manifest.FILE_NAME).exists():
        children.run(
            (job.settings.commands.export, f"--workdir={job.run}", f"--output={job.export}"),
            job.folder / "export.log",
        )
    document = export_manifest.open_export(job.export)
    return {
        "export_digest": document["digest"],
        "step": document["step"],
        "parameters": document["parameters"],
        "task": document["task"],
    }
