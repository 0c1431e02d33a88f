"""Copies between host memory and a GPU that the CPU need not wait for, by way of pinned memory.

Copies are queued on the current stream, in order with what the model does. Pinned memory comes from torch's cache of
it, which gives a buffer out again only after the copies that use it are done. Where everything lies in CPU memory these
functions do nothing.
"""

import torch


def host_buffer(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Host memory, not initialised, of the kind that copies to and from `device` quickly."""
    return torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda")


def upload(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on `device`, for whatever the stream does next.

    A `host_buffer` must not be written to again; any other tensor may.
    """
    if tensor.device == device or device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    if not tensor.is_pinned():
        tensor = host_buffer(tuple(tensor.shape), device, tensor.dtype).copy_(tensor)
    return tensor.to(device, non_blocking=True)


def download(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in host memory; of one on a GPU the values are there after `wait_for(tensor.device)`."""
    if tensor.device.type != "cuda":
        return tensor.cpu()
    return host_buffer(tuple(tensor.shape), tensor.device, tensor.dtype).copy_(tensor, non_blocking=True)


def wait_for(device: torch.device) -> None:
    """Return when everything that was queued on the device's current stream is done."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
