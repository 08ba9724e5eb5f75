"""The reference of the command line: every command with its arguments and options, from what ``--help`` prints."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tools.site.page import Page

_COMMAND = re.compile(r"^(\w+ .*\| )?(clearhead|torchrun) [^.]")
"""A paragraph of a help text that is an example to type."""


@cache
def commands_page() -> Page:
    """All commands, in the order of ``clearhead --help``."""
    import typer

    from clearhead.cli.app import app

    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    lines = ["# Commands", "", "What `clearhead COMMAND --help` prints. [The command line](guides/commands.md) has the"]
    lines += ["rules that all commands share.", ""]
    for name, command in commands.items():
        lines += [f"## clearhead {name}", "", *_words(command.help), "", *_table(command.params), ""]
    return Page("commands.md", "Commands", "\n".join(lines))


def _words(text: str) -> Iterator[str]:
    """The help text: examples that follow one another become one block."""
    examples: list[str] = []
    for paragraph in [*text.split("\n\n"), ""]:
        if _COMMAND.match(paragraph):
            examples.append(paragraph)
            continue
        if examples:
            yield from ("```", *examples, "```", "")
            examples = []
        yield from (paragraph, "")


def _table(params: list[Any]) -> Iterator[str]:
    yield "| argument or option | default | what it is |"
    yield "|---|---|---|"
    for param in params:
        if getattr(param, "hidden", False):
            continue
        option = param.opts[0].startswith("-")
        names = ", ".join(f"`{one}`" for one in (param.opts if option else [f"{param.metavar or param.name}".upper()]))
        shown = "" if param.default in (None, False, ()) else f"`{param.default}`"
        said = " ".join((param.help or "").split()).replace("|", r"\|").replace("<", "&lt;")
        yield f"| {names} | {shown} | {said} |"
