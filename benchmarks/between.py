"""``python -m benchmarks.between OLD NEW [--rounds 9]``: is one version of clearhead slower than another?

OLD and NEW are ``src`` folders of two checkouts. Each case is timed in both, in turn, in processes of their own with
one thread, in CPU time; printed is the ratio of medians, new over old, where less is faster. A case is a training step
(forward and backward) or thirty cached decoding steps of a model of the preset ``tiny``.
"""

import argparse
import os
import statistics
import subprocess
import sys

CASES = {
    "train, tiny": [],
    "train, rope": ["model.position.kind=rope"],
    "train, t5": ["model.position.kind=t5"],
    "train, disentangled": ["model.attention.kind=disentangled"],
    "train, linformer encoder": ["model.encoder.attention.kind=linformer"],
    "decode, tiny": [],
    "decode, rope": ["model.position.kind=rope"],
}
CHILD = """
import sys, time, torch, clearhead
torch.set_num_threads(1)
kind, *settings = sys.argv[1:]
model = clearhead.build(clearhead.read_recipe("tiny", *settings), seed=1)
source = torch.randint(4, 1000, (16, 24), generator=torch.Generator().manual_seed(1))
def train():
    model.train()
    loss = torch.nn.functional.cross_entropy(model(source, source).flatten(0, 1), source.flatten())
    loss.backward()
    model.zero_grad()
def decode():
    model.eval()
    with torch.inference_mode():
        state = model.start(source)
        token = source[:, :1]
        for _ in range(30):
            token = model.step(token, state).argmax(-1, keepdim=True)
work = train if kind.startswith("train") else decode
for _ in range(3):
    work()
times = []
for _ in range(7):
    start = time.process_time()
    work()
    times.append(time.process_time() - start)
print(sorted(times)[len(times) // 2])
"""


def main() -> None:
    """Time both, and print a line for each case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.between", description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    for case, settings in CASES.items():
        times: dict[str, list[float]] = {options.old: [], options.new: []}
        for _ in range(options.rounds):
            for tree, found in times.items():
                environment = os.environ | {"PYTHONPATH": tree, "OMP_NUM_THREADS": "1"}
                command = [sys.executable, "-c", CHILD, case, *settings]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                found.append(float(done.stdout))
        old, new = (statistics.median(times[tree]) for tree in (options.old, options.new))
        print(f"{case:<28} old {1000 * old:7.1f} ms  new {1000 * new:7.1f} ms  new/old {new / old:.3f}", flush=True)


if __name__ == "__main__":
    main()
