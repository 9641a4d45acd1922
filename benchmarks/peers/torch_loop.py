"""Trains a model of torch_models.py; what a step costs is written to stdout. Run by training/torch_peer.py:

  build/peers/bin/python -m benchmarks.peers.torch_loop FOLDER

FOLDER has `options.json`, `weights.npz` and `batches.npz`, which stays in memory: its input costs nothing.
The first line out is the logits of the first batch without dropout; for each line in, a number of steps,
there is one line out: the seconds of a step, by the processor's time of all threads, or by the wall's clock.
"""

import json
import pathlib
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from benchmarks.peers.torch_models import MODELS, Inputs

Batch = tuple[Inputs, torch.Tensor]


def main(folder: pathlib.Path) -> None:
    """Answers until stdin ends."""
    options = json.loads((folder / "options.json").read_text())
    with np.load(folder / "weights.npz") as file:
        weights = [file[str(number)] for number in range(len(file.files))]
    clock = {"cpu": time.process_time, "wall": time.perf_counter}[options["clock"]]
    device = "cuda" if torch.cuda.is_available() else "cpu"  # our caller hides GPUs where CPU time counts
    model = MODELS[options["model"]](weights, **options["arguments"]).to(device)
    batches = list(_batches(folder / "batches.npz", device))
    model.eval()
    with torch.no_grad():
        print(json.dumps(model(batches[0][0]).tolist()), flush=True)
    model.train()
    train = _trainer(model, batches, options)
    for line in sys.stdin:
        begun = clock()
        train(int(line))
        print((clock() - begun) / int(line), flush=True)


def _batches(path: pathlib.Path, device: str) -> Sequence[Batch]:
    with np.load(path) as file:
        arrays = {name: torch.from_numpy(file[name]).to(device) for name in file.files}
    labels = arrays.pop("")
    return [({name: of[n] for name, of in arrays.items()}, labels[n]) for n in range(len(labels))]


def _trainer(model: torch.nn.Module, batches: Sequence[Batch], options: dict) -> Callable[[int], None]:
    """The usual loop: loss and accuracy are summed on the way and read at the end."""
    decayed = [each for name, each in model.named_parameters() if _is_decayed(name, each)]
    others = [each for name, each in model.named_parameters() if not _is_decayed(name, each)]
    optimizer = torch.optim.AdamW(
        [{"params": decayed}, {"params": others, "weight_decay": 0.0}],
        lr=options["learning_rate"],
        eps=1e-7,
        weight_decay=options["weight_decay"],
        fused=True,
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options["total_steps"])
    averages = (
        AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(options["ema"])) if options["ema"] else None
    )
    loss_of = _LOSSES.get(options["model"], _multiclass)
    done = 0

    def train(steps: int) -> None:
        nonlocal done
        sums = torch.zeros(2, device=batches[0][1].device)
        for _ in range(steps):
            inputs, labels = batches[done % len(batches)]
            optimizer.zero_grad(set_to_none=True)
            loss, hits = loss_of(model(inputs), labels)
            loss.backward()
            if options["clip_norm"]:
                torch.nn.utils.clip_grad_norm_(model.parameters(), options["clip_norm"])
            optimizer.step()
            schedule.step()
            if averages:
                averages.update_parameters(model)
            sums += torch.stack([loss.detach(), hits])
            done += 1
        sums.tolist()

    return train


def _is_decayed(name: str, parameter: torch.Tensor) -> bool:
    """Scales, offsets and biases are not decayed."""
    return parameter.ndim > 1 and not name.endswith(("gamma", "bias"))


def _binary(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    loss = functional.binary_cross_entropy_with_logits(logits[:, 0], labels.to(torch.float32))
    return loss, ((logits[:, 0] > 0) == (labels == 1)).sum()


def _multiclass(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return functional.cross_entropy(logits, labels.to(torch.int64)), (logits.argmax(1) == labels).sum()


def _members(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    own = logits[:, :, 0]  # (batch, members)
    alike = labels.to(torch.float32)[:, None].expand_as(own)
    loss = functional.binary_cross_entropy_with_logits(own, alike)
    return loss, ((own.detach().mean(1) > 0) == (labels == 1)).sum()


def _next_token(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    wanted = functional.pad(labels[:, 1:], (0, 1), value=-1).flatten().to(torch.int64)
    flat = logits.flatten(0, 1)
    return functional.cross_entropy(flat, wanted, ignore_index=-1), (flat.argmax(1) == wanted).sum()


_LOSSES = {"wide_deep": _binary, "tabular": _members, "transformer": _next_token}


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
