"""Looking inside a model: which heads there are, and what changes without them."""

from clearhead.inspection.gates import HeadedAttention, head_gates, head_names, headed_attentions, heads_off
from clearhead.inspection.pruning import without_heads

__all__ = ["HeadedAttention", "head_gates", "head_names", "headed_attentions", "heads_off", "without_heads"]
