"""Checks of shapes, which make a call of a model take two to three times as long."""

import jaxtyping


def shapes_are_known() -> None:
    """Check no more shapes until the end of this test: what follows repeats what was checked."""
    jaxtyping.config.update("jaxtyping_disable", True)
