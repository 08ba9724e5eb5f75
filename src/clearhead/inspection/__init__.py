"""Looking inside a model: what it attends to, where an answer comes from, and what changes without a head."""

from clearhead.inspection.alignment import Choice, Gold, choose, error_rate, pharaoh, read_pharaoh
from clearhead.inspection.gates import HeadedAttention, head_gates, head_names, headed_attentions, heads_off
from clearhead.inspection.gradients import Attribution, InexactAttribution
from clearhead.inspection.lens import DecoderGuess, Guess
from clearhead.inspection.maps import HeadMaps, Maps
from clearhead.inspection.parts import Part, Parts
from clearhead.inspection.record import AttentionRecord, Record, StackRecord, SublayerRecord
from clearhead.inspection.recorder import record
from clearhead.inspection.sizes import look_bytes, require_room_to_read
from clearhead.inspection.subject import PatchedImage, Subject
from clearhead.inspection.view import View

__all__ = [
    "AttentionRecord",
    "Attribution",
    "Choice",
    "DecoderGuess",
    "Gold",
    "Guess",
    "HeadMaps",
    "HeadedAttention",
    "InexactAttribution",
    "Maps",
    "Part",
    "Parts",
    "PatchedImage",
    "Record",
    "StackRecord",
    "Subject",
    "SublayerRecord",
    "View",
    "choose",
    "error_rate",
    "head_gates",
    "head_names",
    "headed_attentions",
    "heads_off",
    "look_bytes",
    "pharaoh",
    "read_pharaoh",
    "record",
    "require_room_to_read",
]
