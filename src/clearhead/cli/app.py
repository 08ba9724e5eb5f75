"""``clearhead``: the commands."""

from typing import Annotated

import typer

import clearhead
from clearhead.cli.check import check
from clearhead.cli.cost import cost
from clearhead.cli.evaluate import evaluate
from clearhead.cli.exporting import export
from clearhead.cli.importing import convert
from clearhead.cli.lecture import lecture
from clearhead.cli.look import look
from clearhead.cli.merge import merge
from clearhead.cli.presets import presets
from clearhead.cli.prune import prune
from clearhead.cli.run import run
from clearhead.cli.score import score
from clearhead.cli.serve import serve
from clearhead.cli.show import AgainstCommand, show
from clearhead.cli.train import train

app = typer.Typer(
    name="clearhead",
    help="Transformers you can see through: one recipe describes a model.",
    epilog="Overrides of the form section.key=value follow any recipe: clearhead show tiny model.layers=2",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(train)
app.command("eval")(evaluate)
app.command()(run)
app.command()(score)
app.command()(look)
app.command()(serve)
app.command()(check)
app.command()(presets)
app.command(cls=AgainstCommand)(show)
app.command()(cost)
app.command()(lecture)
app.command()(prune)
app.command()(merge)
app.command("import")(convert)
app.command()(export)


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
