"""Whether all processes of a group, also those on other machines, see the same run folder."""

from pathlib import Path

from clearhead.errors import PartnerError
from clearhead.training.manifest import checksum_of
from clearhead.training.process_group import ProcessGroup


def require_one_folder(folder: Path, group: ProcessGroup, file: str = "run.json") -> None:
    """Every process must see the file that the leader has written; all find out together, and end.

    Args:
        folder: the run folder, or one in it, as this process calls it.
        group: the processes that train together; each must ask.
        file: what is compared. Default: the run's manifest.
    """
    path = folder / file
    seen = group.gather_texts(str(checksum_of(path)) if path.is_file() else "")
    if blind := [str(rank) for rank, found in enumerate(seen) if found != seen[0]]:
        raise PartnerError(
            f"{folder}: process {', '.join(blind)} does not see the run there that process 0 sees: all nodes need one "
            "folder that they share (NFS or the like), or the same copy of it under this name"
        )
