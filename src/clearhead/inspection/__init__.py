"""Looking inside a model: what it attends to, where an answer comes from, and what changes without a head."""

from clearhead.inspection.gates import HeadedAttention, head_gates, head_names, headed_attentions, heads_off
from clearhead.inspection.maps import HeadMaps, Maps
from clearhead.inspection.record import AttentionRecord, Record, StackRecord, SublayerRecord
from clearhead.inspection.recorder import record
from clearhead.inspection.subject import Picture, Subject
from clearhead.inspection.view import View

__all__ = [
    "AttentionRecord",
    "HeadMaps",
    "HeadedAttention",
    "Maps",
    "Picture",
    "Record",
    "StackRecord",
    "Subject",
    "SublayerRecord",
    "View",
    "head_gates",
    "head_names",
    "headed_attentions",
    "heads_off",
    "record",
]
