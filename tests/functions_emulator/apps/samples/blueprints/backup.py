"""Fan-out and fan-in: all files of a folder are copied at once, and their sizes are added up."""

import shutil
from pathlib import Path

import azure.durable_functions as df

backups = df.Blueprint()


@backups.activity_trigger(input_name="folder")
def list_files(folder: str) -> list:
    return sorted(str(path) for path in Path(folder).rglob("*") if path.is_file())


@backups.activity_trigger(input_name="move")
def copy_file(move: dict) -> int:
    """Idempotent, since an activity may run twice."""
    target = Path(move["to"])
    target.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(move["file"], target)).stat().st_size


@backups.orchestration_trigger(context_name="context")
def back_up(context: df.DurableOrchestrationContext):
    plan = context.get_input()
    files = yield context.call_activity("list_files", plan["from"])
    sizes = yield context.task_all(
        [context.call_activity("copy_file", {"file": one, "to": plan["to"]}) for one in files]
    )
    return {"files": len(files), "bytes": sum(sizes)}
