"""The card of a shipped model: its commands say what was asked for."""

from tools.ship import TAUGHT, _asked

from clearhead.recipe import read_recipe


def test_the_command_of_a_card_asks_for_the_same_training() -> None:
    """Whoever follows it has the same steps, dropout and agreement; what nobody asked for is not there."""
    asked = ["training.threads=1", "training.evaluate_every=7", "training.save_every=5"]
    plain = read_recipe(None, *asked, "training.steps=20", "model.dropout.residual=0.2", "model.dropout.embedding=0.1")
    drawn = plain.updated(training=plain.training.replaced(agreement=5.0))
    for recipe in (plain, drawn):
        budget, steps, *settings = _asked(recipe).split()
        assert (budget, steps) == ("--max-steps", "20")
        again = read_recipe(None, f"training.steps={steps}", *settings)
        assert again.training == recipe.training
        assert again.model == recipe.model
    assert "agreement" not in _asked(plain)


def test_the_command_of_a_card_draws_the_same_words() -> None:
    """Lessons of another seed are other lessons."""
    assert "more_words BEFORE answers.tsv --seed 3\n" in TAUGHT.format(settings="", drawn=" --seed 3")
