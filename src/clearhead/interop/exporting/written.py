"""What a target's writer returns."""

from dataclasses import dataclass

from clearhead.interop.exporting.result import Agreement


@dataclass(frozen=True)
class Written:
    """A folder that was filled and compared.

    Args:
        form: what the other library takes it for.
        agreement: how it compares with the model.
        notes: what a user should know.
        int8: the comparison of weights in eight bits.
    """

    form: str
    agreement: Agreement
    notes: tuple[str, ...] = ()
    int8: Agreement | None = None
