"""Beam search: the k best prefixes of every line are extended in parallel.

Shapes: b lines, k beams of a line, V entries of the vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from clearhead.decoding.best import best_places
from clearhead.decoding.rules import Rules
from clearhead.decoding.stepper import Hypothesis, Stepper, length_penalty
from clearhead.decoding.tree import Candidate, SearchTree


@dataclass
class _Line:
    """One line of the batch: its beams in order, and its finished hypotheses."""

    number: int
    longest: int
    width: int
    beams: list[list[int]] = field(default_factory=lambda: [[]])
    finished: list[Hypothesis] = field(default_factory=list)
    tree: SearchTree | None = None

    def advance(self, candidates: list[Candidate], eos: int, penalty: float) -> list[Candidate] | None:
        """Do one step: return the candidates that continue, or None if the line is done."""
        going: list[Candidate] = []
        ended: list[Candidate] = []
        for rank, candidate in enumerate(candidates):
            value, parent, token = candidate
            if token != eos:
                going.append(candidate)
            elif rank < self.width:
                ended.append(candidate)
                self._end(Hypothesis(self.beams[parent], value, value / penalty))
            if len(going) == self.width:
                break
        if self.tree is not None:
            self.tree.grow(going, ended, penalty)
        beams = [[*self.beams[parent], token] for _, parent, token in going]
        if beams and len(beams[0]) >= self.longest:
            for beam, (value, _, _) in zip(beams, going, strict=True):
                self._end(Hypothesis(beam, value, value / penalty, finished=False))
            return None
        full = len(self.finished) == self.width
        if not going or (full and going[0][0] / penalty <= self.finished[-1].score):
            return None
        # every line has the same number of beams, so a line with too few repeats its last one with log p = −∞
        missing = self.width - len(going)
        self.beams = beams + [beams[-1]] * missing
        return going + [(-torch.inf, *going[-1][1:])] * missing

    def _end(self, hypothesis: Hypothesis) -> None:
        """Keep the best ``width`` finished hypotheses, the best first; of equal ones, the first found."""
        self.finished.append(hypothesis)
        self.finished.sort(key=lambda found: -found.score)
        del self.finished[self.width :]


def beam_search(
    stepper: Stepper,
    rules: Rules,
    *,
    width: int,
    first: Sequence[int],
    eos: int,
    alpha: float = 0.0,
    tree: SearchTree | None = None,
) -> list[list[Hypothesis]]:
    """Return the best hypotheses of each line, at most ``width``, the best first, all distinct.

    In every step the 2·width best continuations of a line are considered in order: those among the first ``width``
    that end are finished, and the first ``width`` others continue. Finished hypotheses are ranked by
    log p / ((5 + |y|)/6)^α. A line stops once it has ``width`` finished hypotheses and its best open beam, at its
    current length, is not better than the worst of them (for α = 0 this is exact: no open beam can overtake), or at its
    length limit, where open beams are returned as they are.

    Args:
        stepper: the model, fed token by token.
        rules: lengths, and which tokens are allowed.
        width: the number of beams, k.
        first: the first token to feed, for each line.
        eos: the end token.
        alpha: the length penalty, α. Default: 0, none.
        tree: an empty tree that records every hypothesis, if there is only one line. Default: nothing is recorded.
    """
    if tree is not None and len(rules.longest) != 1:
        raise ValueError(f"a tree records one line, not {len(rules.longest)}")
    lines = [_Line(number, longest, width, tree=tree) for number, longest in enumerate(rules.longest)]
    results: list[list[Hypothesis]] = [[] for _ in lines]
    ids = torch.tensor(first)[:, None]
    sums = torch.zeros(len(lines), 1)  # log p of each beam
    length = 0
    while lines:
        logits = stepper.step(ids).cpu()  # (b, k, V)
        size = logits.shape[2]
        scores = logits.float().log_softmax(-1)
        if not rules.plain:
            rules.forbid(scores, [line.number for line in lines], length, [line.beams for line in lines], eos)
        totals = scores.add_(sums[:, :, None]).flatten(1).numpy()  # (b, k·V)
        length += 1
        kept, beams, tokens, new_sums = [], [], [], []
        for row, line in enumerate(lines):
            best = [(value, *divmod(place, size)) for value, place in best_places(totals[row], 2 * width)]
            going = line.advance(best, eos, length_penalty(length, alpha))
            if going is None:
                results[line.number] = line.finished
                if tree is not None:
                    tree.close(line.finished)
                continue
            kept.append(row)
            new_sums.append([value for value, _, _ in going])
            beams.append([parent for _, parent, _ in going])
            tokens.append([token for _, _, token in going])
        lines = [lines[row] for row in kept]
        if lines:
            ids, sums = torch.tensor(tokens), torch.tensor(new_sums)
            stepper.keep(torch.tensor(kept), torch.tensor(beams))
    return results
