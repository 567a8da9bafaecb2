"""Train on several processes, save every few steps, and go on with any number of processes.

    torchrun --nproc-per-node 2 examples/torch_ddp.py s3://bucket/train --checkpoint model.pt

The dataset has the features x (float32, shape (8,)) and y (float32). Run it again after a crash, or
with another --nproc-per-node: it goes on behind the last checkpoint, and no record of the epoch
comes twice.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torchdata.stateful_dataloader import StatefulDataLoader

from tfio_store.torch import TFRecordIterable, reshard

WORKERS = 1


def made_loader(url: str, saved: dict[str, Any] | None) -> StatefulDataLoader:
    """Batches of this rank, behind those that the checkpoint has seen."""
    dataset = TFRecordIterable(url, batch_size=16, shuffle=True, seed=7, even="pad")
    if saved is not None:
        states = reshard(saved["loaders"], world_size=dist.get_world_size(), num_workers=WORKERS)
        dataset.load_state_dict(states[dist.get_rank()])
    return StatefulDataLoader(dataset, batch_size=None, num_workers=WORKERS)


def save(path: str, model: Any, loader: StatefulDataLoader, epoch: int) -> None:
    """One file with the model and where every rank's loader stands."""
    loaders: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(loaders, loader.state_dict())
    if dist.get_rank() == 0:
        found = {"model": model.module.state_dict(), "loaders": loaders, "epoch": epoch}
        torch.save(found, f"{path}.new")
        os.replace(f"{path}.new", path)
    dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--checkpoint", default="model.pt")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--save-every", type=int, default=5)
    given = parser.parse_args()
    dist.init_process_group("gloo")
    saved = None
    if os.path.exists(given.checkpoint):
        saved = torch.load(given.checkpoint, weights_only=False)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    if saved is not None:
        model.module.load_state_dict(saved["model"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = made_loader(given.url, saved)
    for epoch in range(saved["epoch"] if saved else 0, given.epochs):
        loss = torch.zeros(())
        for step, batch in enumerate(loader, 1):
            loss = torch.nn.functional.mse_loss(model(batch["x"])[:, 0], batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % given.save_every == 0:
                save(given.checkpoint, model, loader, epoch)
        save(given.checkpoint, model, loader, epoch + 1)
        print(f"rank {dist.get_rank()} epoch {epoch} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
