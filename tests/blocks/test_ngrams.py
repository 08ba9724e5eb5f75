"""N-gram embeddings against a loop, and what their rows may not depend on."""

import pytest
import torch

from clearhead.blocks import NgramEmbedding

P, A = 2**31 - 1, 506_952_114


def make(reach: int = 2, buckets: int = 97) -> NgramEmbedding:
    torch.manual_seed(1)
    return NgramEmbedding(reach=reach, buckets=buckets, width=5, out_width=12)


def rows_by_loop(line: list[int], reach: int, buckets: int) -> list[list[int]]:
    """The rows of each token's n-grams, one n-gram and one token after the other, in whole numbers of Python."""
    found = []
    for place in range(len(line)):
        rows: list[int] = []
        for left in range(reach + 1):
            for right in range(reach + 1):
                if left == right == 0:
                    continue
                hashed = 0
                for at in range(place - left, place + right + 1):
                    token = line[at] + 1 if 0 <= at < len(line) else 0
                    hashed = (hashed * A + token) % P
                rows.append(hashed * A % P % buckets + len(rows) * buckets)
        found.append(rows)
    return found


@pytest.mark.parametrize("reach", [1, 2, 3])
def test_rows_are_those_of_a_loop(reach: int) -> None:
    line = [7, 3, 3, 9, 0, 12]
    expected = rows_by_loop(line, reach, 97)
    assert make(reach).rows(torch.tensor([line])).tolist() == [expected]
    shifted = rows_by_loop([*line[1:], line[0]], reach, 97)  # the wrong variant: tokens one place off
    assert shifted != expected


def test_vectors_are_the_rows_through_one_map() -> None:
    module, line = make(), [4, 5, 6]
    rows = rows_by_loop(line, 2, 97)
    for place, vector in enumerate(module(torch.tensor([line]))[0]):
        joined = torch.cat([module.table.weight[row] for row in rows[place]])
        torch.testing.assert_close(vector, module.project.weight @ joined)


def test_padding_on_either_side_is_what_lies_beyond_the_ends() -> None:
    """Contract 1: neighbours in a batch do not matter; padding that counts as a token would be seen."""
    module, line = make(), [4, 5, 6, 7]
    alone = module.rows(torch.tensor([line]))[0]
    for before, after in ((0, 3), (2, 0), (1, 2)):
        ids = torch.tensor([[9] * before + line + [9] * after])
        valid = torch.tensor([[False] * before + [True] * 4 + [False] * after])
        assert torch.equal(module.rows(ids, valid)[0, before : before + 4], alone)
        assert not torch.equal(module.rows(ids)[0, before : before + 4], alone)


def test_rows_depend_on_what_is_within_reach_alone() -> None:
    module, line = make(reach=2), [4, 5, 6, 7, 8, 9]
    before = module.rows(torch.tensor([line]))[0]
    after = module.rows(torch.tensor([[*line[:5], 30]]))[0]
    assert torch.equal(before[:3], after[:3])
    assert not torch.equal(before[3], after[3])


def test_rows_are_spread_over_the_whole_table() -> None:
    """Twice as many n-grams as rows leave few rows unused: e⁻² of them by chance."""
    module = make(reach=1, buckets=200)
    ids = torch.randint(0, 40, (1, 402), generator=torch.Generator().manual_seed(3))
    used = module.rows(ids)[0, 1:-1] % 200  # (400, 3)
    for number in range(3):
        assert 150 < len(used[:, number].unique()) <= 200


def test_whole_rows_are_dropped_while_training_alone() -> None:
    """A row is 0 or, as the mean is preserved, doubled; dropping single features would mix both in a row."""
    torch.manual_seed(1)
    module = NgramEmbedding(reach=2, buckets=97, width=3, out_width=24, dropout=0.5)
    with torch.no_grad():
        module.project.weight.copy_(torch.eye(24))
    ids = torch.arange(4, 44).view(2, 20)
    kept = module.eval()(ids).view(-1, 3)
    trained = module.train()(ids).view(-1, 3)
    dropped = (trained == 0).all(dim=1)
    torch.testing.assert_close(trained[~dropped], 2 * kept[~dropped])
    assert 0.35 < dropped.float().mean() < 0.65
