"""``answer_shards(on="ray")`` on a local cluster of two nodes: the same bytes, also if a worker is killed."""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.predictor import Answered, AnsweringWork, Line
from clearhead.verbs import on_ray
from tests.training.toy import FEW, SMALL, write_pairs

os.environ |= on_ray.LOOPBACK  # read when ray is imported
ray: Any = pytest.importorskip("ray", reason='needs the extra ray: pip install "clearhead[ray]"')
# Ray leaves sockets and files to the collector, and warns of what its next version does
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> clearhead.Run:
    folder = tmp_path_factory.mktemp("ray")
    return clearhead.train(write_pairs(folder / "pairs.tsv", count=FEW), folder / "run", steps=20, settings=SMALL)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of two cores each."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 2, "object_store_memory": 100 << 20, "node_ip_address": "127.0.0.1"}
    made = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
    made.add_node(**node)
    made.wait_for_nodes()
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, lines in (("a.txt", 3000), ("b.txt", 0), ("c.txt", 3)):
        (folder / name).write_text("".join(f"{'abcdefg'[number % 7] * (number % 5)}\n" for number in range(lines)))
    (folder / "d.jsonl").write_text('{"source": "ab", "n": 1}\n')
    return folder


def answers_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


class KilledOnce:
    """The usual work, but the process that meets line 2000 is killed, once."""

    def __init__(self, mark: Path) -> None:
        self.mark, self.answer = mark, AnsweringWork.__call__

    def __call__(self, work: AnsweringWork, lines: Sequence[Line]) -> list[Answered]:
        if any(line.number == 2000 for line in lines) and not self.mark.exists():
            self.mark.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return self.answer(work, lines)


def test_a_cluster_gives_the_answers_of_one_process_although_a_worker_is_killed(
    run: clearhead.Run, cluster: Any, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost, nothing doubled, all in order; then --resume has nothing left to do."""
    assert len([node for node in ray.nodes() if node["Alive"]]) == 2
    clearhead.answer_shards(run, inputs / "*", tmp_path / "local", scores=True)
    killing, answering = KilledOnce(tmp_path / "killed"), on_ray._Answering

    class Killing(answering):  # type: ignore[valid-type,misc]
        def __init__(self, model: on_ray.RemoteModel) -> None:
            super().__init__(model)
            work: Any = self._work
            self._work: Any = lambda lines: killing(work, lines)

    monkeypatch.setattr(on_ray, "_Answering", Killing)
    count = clearhead.answer_shards(run, inputs / "*", tmp_path / "ray", scores=True, on="ray", workers=2)
    assert count == 3004
    assert answers_in(tmp_path / "ray") == answers_in(tmp_path / "local")
    assert int((tmp_path / "killed").read_text()) != os.getpid()
    events: list[clearhead.Event] = []
    clearhead.answer_shards(run, inputs / "*", tmp_path / "ray", scores=True, resume=True, report=events.append)
    assert str(events[0]) == "4 of 4 files are answered already"


def test_a_bad_line_on_another_node_is_an_error_that_names_it(
    run: clearhead.Run, cluster: Any, inputs: Path, tmp_path: Path
) -> None:
    (inputs / "e.jsonl").write_text('{"source": "ab"}\n{"text": "ab"}\n')
    with pytest.raises(clearhead.DataError, match=r'e\.jsonl, line 2: has no text in the field "source"'):
        clearhead.answer_shards(run, inputs / "*.jsonl", tmp_path / "out", on="ray", workers=1)
    assert list(answers_in(tmp_path / "out")) == ["d.jsonl"]


def test_a_model_without_a_name_is_refused(run: clearhead.Run, cluster: Any, inputs: Path, tmp_path: Path) -> None:
    with pytest.raises(clearhead.RecipeError, match="save it, and name the file"):
        clearhead.answer_shards(run.model, inputs / "c.txt", tmp_path / "out", on="ray")
