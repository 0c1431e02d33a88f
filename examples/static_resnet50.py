"""ResNet-50 as a static program: one process or all-reduce, on CPUs or GPUs.

    python examples/static_resnet50.py --tiny                                                  a small one, seconds
    fleetrun --nproc_per_node 2 --device cpu examples/static_resnet50.py --tiny                two workers
    fleetrun --gpus 0,1 examples/static_resnet50.py --run compiled                             ResNet-50, two GPUs

Images are made up. Parameters are named as torchvision's, so that a state_dict of it can be given to the program.
"""

import argparse
from dataclasses import dataclass

import numpy as np

import fleet
import fleet_programs as static
from fleet_programs import ParamAttr, Variable, layers

RUNS = ("plain", "compiled", "graph")
Feed = dict[str, np.ndarray]


@dataclass(frozen=True)
class Size:
    """How large a ResNet of bottlenecks is, and what goes in."""

    blocks: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    num_classes: int = 1000
    image: int = 224


TINY = Size(blocks=(1, 1), width=8, num_classes=4, image=32)


def convolved(x: Variable, name: str, norm: str, num: int, kernel: int, stride: int, act: str | None) -> Variable:
    """A convolution without a bias, then batch norm."""
    weight = ParamAttr(f"{name}.weight")
    x = layers.conv2d(x, num, kernel, stride, kernel // 2, param_attr=weight, bias_attr=False)
    return layers.batch_norm(
        x,
        act=act,
        param_attr=ParamAttr(f"{norm}.weight"),
        bias_attr=ParamAttr(f"{norm}.bias"),
        moving_mean_name=f"{norm}.running_mean",
        moving_variance_name=f"{norm}.running_var",
    )


def bottleneck(x: Variable, name: str, width: int, stride: int) -> Variable:
    """1x1, 3x3 and 1x1 beside a way around them."""
    y = convolved(x, f"{name}.conv1", f"{name}.bn1", width, 1, 1, "relu")
    y = convolved(y, f"{name}.conv2", f"{name}.bn2", width, 3, stride, "relu")
    y = convolved(y, f"{name}.conv3", f"{name}.bn3", 4 * width, 1, 1, None)
    if stride > 1 or x.shape[1] != 4 * width:
        x = convolved(x, f"{name}.downsample.0", f"{name}.downsample.1", 4 * width, 1, stride, None)
    return layers.elementwise_add(x, y, act="relu")


def network(size: Size, dtype: str = "float32") -> tuple[Variable, Variable]:
    """The loss and the logits, over images that are fed as x and labels as y."""
    x = static.data("x", [None, 3, size.image, size.image], dtype)
    y = static.data("y", [None, 1], "int64")
    x = convolved(x, "conv1", "bn1", size.width, 7, 2, "relu")
    x = layers.pool2d(x, 3, "max", 2, 1)
    for number, count in enumerate(size.blocks):
        for index in range(count):
            stride = 2 if number and not index else 1
            x = bottleneck(x, f"layer{number + 1}.{index}", size.width << number, stride)
    x = layers.pool2d(x, pool_type="avg", global_pooling=True)
    logits = layers.fc(x, size.num_classes, param_attr=ParamAttr("fc.weight"), bias_attr=ParamAttr("fc.bias"))
    return layers.mean(layers.softmax_with_cross_entropy(logits, y)), logits


def images(count: int, size: Size, seed: int) -> Feed:
    """Noise over stripes whose width is the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, size.num_classes, (count, 1))
    waves = np.sin(np.arange(size.image) * (1 + y) * np.pi / size.image)[:, None, None, :]
    x = waves + rng.standard_normal((count, 3, size.image, size.image)) / 2
    return {"x": x.astype(np.float32), "y": y}


def compiled(program: static.Program, run: str) -> static.CompiledProgram:
    """The program with values let go where they were used last; through torch.compile or a CUDA graph if wanted."""
    build = static.BuildStrategy()
    build.memory_optimize, build.torch_compile, build.cuda_graph = True, run == "compiled", run == "graph"
    return static.CompiledProgram(program, build)


def main(args: argparse.Namespace) -> None:
    size = TINY if args.tiny else Size()
    fleet.init(is_collective=True)
    loss, logits = network(size)
    program = static.default_main_program()
    evaluation = program.clone(for_test=True)
    fleet.distributed_optimizer(static.optimizer.Momentum(args.lr, 0.9)).minimize(loss)
    executor = static.Executor(fleet.device)
    executor.run(static.default_startup_program())
    trained = compiled(program, args.run)
    bar = fleet.progress(range(args.steps), "training", enabled=fleet.is_first_worker())
    for step in bar:
        seed = step * fleet.worker_num() + fleet.worker_index()
        (cost,) = executor.run(trained, feed=images(args.batch_size, size, seed), fetch_list=[loss])
        if step % 10 == 0:
            bar.show(loss=float(cost[0]))
    unseen = images(256 if args.tiny else args.batch_size, size, seed=2**32)
    (found,) = executor.run(evaluation, feed=unseen, fetch_list=[logits])
    if fleet.is_first_worker():
        right = float((found.argmax(axis=1) == unseen["y"][:, 0]).mean())
        print(f"{fleet.worker_num()} worker(s): loss {cost[0]:.4f}, accuracy on unseen images {right:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="train ResNet-50 as a static program")
    parser.add_argument("--tiny", action="store_true", help="two small blocks and images of 32 x 32")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=32, help="of each worker")
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--run", choices=RUNS, default="plain", help="through torch.compile, or a CUDA graph")
    main(parser.parse_args())
