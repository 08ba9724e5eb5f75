"""Search: greedy, sampling and beam search over a step function. Only the steppers know about models."""

from clearhead.decoding.beam import beam_search
from clearhead.decoding.greedy import Sampler, each_token, greedy
from clearhead.decoding.guarded import FIRST, GuardedStepper
from clearhead.decoding.lean import LeanDecoder, lean_decoder
from clearhead.decoding.plain import ModelStepper
from clearhead.decoding.repetitions import Repetitions
from clearhead.decoding.rules import Allowed, Rules, Trie
from clearhead.decoding.single import SingleDecoder, single_decoder
from clearhead.decoding.stepper import Hypothesis, Stepper, length_penalty
from clearhead.decoding.tree import SearchNode, SearchTree

__all__ = [
    "FIRST",
    "Allowed",
    "GuardedStepper",
    "Hypothesis",
    "LeanDecoder",
    "ModelStepper",
    "Repetitions",
    "Rules",
    "Sampler",
    "SearchNode",
    "SearchTree",
    "SingleDecoder",
    "Stepper",
    "Trie",
    "beam_search",
    "each_token",
    "greedy",
    "lean_decoder",
    "length_penalty",
    "single_decoder",
]
