"""``clearhead``: the commands, and how errors reach the terminal."""

import os
import sys
from typing import Annotated

import typer

import clearhead
from clearhead.cli.convert import convert
from clearhead.cli.presets import presets
from clearhead.cli.show import show
from clearhead.errors import ClearheadError

app = typer.Typer(
    name="clearhead",
    help="Transformers you can see through: one recipe describes a model.",
    epilog="Overrides of the form section.key=value follow any recipe: clearhead show tiny model.layers=2",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(presets)
app.command()(show)
app.command("import")(convert)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"clearhead {clearhead.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the command line; an error of ours is one message and an exit code, never a traceback."""
    try:
        app()
    except ClearheadError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # the reader has left: that is no failure, and Python must not complain about it when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
