"""Looking inside a model: what it attends to, where an answer comes from, and what changes without a head."""

from clearhead.inspection.alignment import Choice, Gold, choose, error_rate, pharaoh, read_pharaoh
from clearhead.inspection.forcing import ForcedBatch, encoded, gate_gradients, row_losses
from clearhead.inspection.gates import HeadedAttention, head_gates, head_names, headed_attentions, heads_off
from clearhead.inspection.gradients import Attribution, InexactAttribution
from clearhead.inspection.lens import DecoderGuess, Guess
from clearhead.inspection.maps import HeadMaps, Maps
from clearhead.inspection.observing import Observations, watched_weights
from clearhead.inspection.parts import Part, Parts
from clearhead.inspection.prefixes import layer_inputs, starting_at
from clearhead.inspection.pruning import without_heads
from clearhead.inspection.record import AttentionRecord, Record, StackRecord, SublayerRecord
from clearhead.inspection.recorder import record
from clearhead.inspection.roles import ROLES, Reading, RoleSums
from clearhead.inspection.sizes import look_bytes, require_room_to_read
from clearhead.inspection.subject import BeamNode, PatchedImage, Subject
from clearhead.inspection.view import View

__all__ = [
    "ROLES",
    "AttentionRecord",
    "Attribution",
    "BeamNode",
    "Choice",
    "DecoderGuess",
    "ForcedBatch",
    "Gold",
    "Guess",
    "HeadMaps",
    "HeadedAttention",
    "InexactAttribution",
    "Maps",
    "Observations",
    "Part",
    "Parts",
    "PatchedImage",
    "Reading",
    "Record",
    "RoleSums",
    "StackRecord",
    "Subject",
    "SublayerRecord",
    "View",
    "choose",
    "encoded",
    "error_rate",
    "gate_gradients",
    "head_gates",
    "head_names",
    "headed_attentions",
    "heads_off",
    "layer_inputs",
    "look_bytes",
    "pharaoh",
    "read_pharaoh",
    "record",
    "require_room_to_read",
    "row_losses",
    "starting_at",
    "watched_weights",
    "without_heads",
]
