"""The living figures in a real browser: the page computes what clearhead computes, to 1e-5, at many settings."""

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import clearhead
from clearhead.attention import LinformerAttention, causal_mask, choose, divisor, dot, weigh
from clearhead.costing.forms import lecture as forms
from clearhead.costing.tracing.run import counted_macs
from clearhead.lectures import Outcome, claims
from clearhead.lectures.living import Select, Slider, Switch, living_parts
from clearhead.lectures.living_figures import LIVING
from clearhead.lectures.page import page
from tests.browser import Open, violations

Settings = dict[str, Any]
Numbers = dict[str, Any]


@pytest.fixture(autouse=True, scope="module")
def in_double() -> Iterator[None]:
    """Scripts compute in float64, so clearhead does the same here."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "lectures.html"
    path.write_text(page([Outcome(claim, None, 0.0, "not run") for claim in claims()]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def living(browser: Any, file: Path) -> Iterator[Any]:
    context = browser.new_context()
    opened = context.new_page()
    opened.goto(file.as_uri())
    yield opened
    context.close()


def turn(living: Any, name: str, settings: Settings) -> Numbers:
    """Set the controls as a reader does, and return what the figure computed."""
    living.locator(f"#living-{name}").evaluate(
        """(section, settings) => {
            for (const [key, value] of Object.entries(settings)) {
                const control = section.querySelector(`[name="${key}"]`);
                if (control.type === "checkbox") control.checked = value; else control.value = value;
                control.dispatchEvent(new Event("input", { bubbles: true }));
            }
        }""",
        settings,
    )
    numbers: Numbers = living.locator(f"#living-{name}").evaluate("section => section.numbers")
    return numbers


def tensor(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def choice(n: Numbers) -> Numbers:
    scores = tensor([n["scores"]]).requires_grad_()
    weights = choose(scores, choice=n["settings"]["choice"])
    result = (weights @ tensor(n["values"])).sum()
    result.backward()
    assert scores.grad is not None
    return {"weights": weights[0], "result": result, "slopes": scores.grad[0]}


def heads(n: Numbers) -> Numbers:
    s = n["settings"]
    sizes = {"h": s["h"], "d_q": s["dq"], "d_v": s["dv"], "head_q": s["headq"], "head_v": s["headv"], "d_o": s["dout"]}
    made = [make(s["N"], s["M"], **sizes) for make in (forms.multihead_work, forms.multihead_space)]
    time, space = ([int(terms.projections), int(terms.attention), int(terms.output)] for terms in made)
    return {"time": time, "space": space}


def norm(n: Numbers) -> Numbers:
    s = n["settings"]
    module = clearhead.LayerNorm(width=6, eps=s["eps"], eps_place=s["place"], axis=s["axis"], affine=False)
    result = module(tensor(n["tokens"])[None])[0]
    return {"result": result, "mean": result[0].mean(), "deviation": result[0].std(correction=0)}


def residual(n: Numbers) -> Numbers:
    s = n["settings"]
    block = clearhead.AddNorm(
        clearhead.LayerNorm(width=8, affine=False), place=s["place"], dropout=0.0, residual=s["residual"]
    )
    x, v = tensor(n["input"]), tensor(n["nudge"])
    start, sizes, arrived = v.norm(), [x.norm()], [1.0]
    for matrix in map(tensor, n["matrices"]):

        def layer(x: Tensor, matrix: Tensor = matrix) -> Tensor:
            passed: Tensor = block(x[None, None], lambda y: torch.tanh(y @ matrix) / 2)
            return passed[0, 0]

        x, v = torch.func.jvp(layer, (x,), (v,))
        sizes.append(x.norm())
        arrived.append(v.norm() / start)
    return {"output": x, "sizes": torch.stack(sizes), "arrived": tensor([float(one) for one in arrived])}


def mask(n: Numbers) -> Numbers:
    s = n["settings"]
    queries, keys = tensor(n["queries"]), tensor(n["keys"])
    count, m = len(queries), len(keys)
    right = causal_mask(count, m) if s["align"] == "right" else causal_mask(m, m)[:count]
    weights = weigh(queries, keys, scale=s["scale"], mask=right if s["mask"] else None)
    future = weights.masked_fill(causal_mask(count, m), 0.0).sum()
    return {"scores": dot(queries, keys) / divisor(s["scale"], 3), "weights": weights, "future": future}


def order(n: Numbers) -> Numbers:
    tokens = tensor(n["tokens"])
    table = clearhead.sinusoids(5, 4) if n["settings"]["positions"] else torch.zeros(5, 4)
    first, second = tokens + table, tokens[n["order"]] + table
    before, after = clearhead.attend(first, first, first), clearhead.attend(second, second, second)
    return {"before": before, "after": after, "moved": (after - before[n["order"]]).abs().max()}


def scale(n: Numbers) -> Numbers:
    s = n["settings"]
    queries, keys = tensor(n["queries"]), tensor(n["keys"])
    weights = weigh(queries, keys, scale=s["scale"])
    entropy = -torch.xlogy(weights, weights).sum(-1)
    return {
        "variance": (dot(queries, keys) / divisor(s["scale"], s["size"])).var(correction=0),
        "looked": entropy.exp().mean(),
        "slope": (weights * (1 - weights)).mean(),
        "weights": weights[0],
    }


def sinusoids(n: Numbers) -> Numbers:
    s = n["settings"]
    table = clearhead.sinusoids(s["length"], s["width"], layout=s["layout"])
    return {"table": table, "alike": table @ table[min(s["position"], s["length"] - 1)]}


def linformer(n: Numbers) -> Numbers:
    s = n["settings"]
    full = clearhead.MultiHeadAttention(width=s["d"], heads=1, bias=False)
    lin = LinformerAttention(width=s["d"], heads=1, rank=s["k"], length=s["n"], bias=False)
    full.path = lin.path = "explicit"
    x = torch.zeros(1, s["n"], s["d"])
    return {"full": counted_macs(lambda: full(x)), "linformer": counted_macs(lambda: lin(x))}


def table_one(n: Numbers) -> Numbers:
    s = n["settings"]
    layers = [
        forms.self_attention_layer(s["n"], s["d"]),
        forms.recurrent_layer(s["n"], s["d"]),
        forms.convolution_layer(s["n"], s["d"], s["k"]),
        forms.restricted_layer(s["n"], s["d"], s["r"]),
    ]
    return {
        "work": [int(layer.mixing) for layer in layers],
        "sequential": [int(layer.sequential) for layer in layers],
        "path": [int(layer.path) for layer in layers],
    }


def span(n: Numbers) -> Numbers:
    s = n["settings"]
    T, J, U = s["T"], s["J"], s["J"] // s["K"]
    size = J // s["K"]
    work = forms.multihead_work(T, T, h=s["K"], d_q=J, d_v=J, head_q=size, head_v=size, d_o=1)
    return {
        "scores": int(forms.span_of_scores(T, U)),
        "scoresSerial": int(forms.span_of_scores(T, U, serial=True)),
        "layer": int(forms.span_of_attention(T, J, U)),
        "layerSerial": int(forms.span_of_attention(T, J, U, serial=True)),
        "work": int(work.projections + work.attention),
    }


def sizes(n: Numbers) -> Numbers:
    s = n["settings"]
    attention = clearhead.MultiHeadAttention(width=s["d"], heads=s["h"], bias=False)
    attention.path = "explicit"
    net = clearhead.StandardFeedForward(width=s["d"])
    weights: list[int] = []
    attention.weights.register_forward_hook(lambda _module, _inputs, out: weights.append(out.numel()))
    x = torch.zeros(1, s["n"], s["d"])
    matrices = [one.numel() for module in (attention, net) for one in module.parameters() if one.dim() > 1]
    return {
        "attention": counted_macs(lambda: attention(x)),
        "feedforward": counted_macs(lambda: net(x)),
        "parameters": sum(matrices),
        "weights": weights[0],
    }


CASES: list[tuple[str, Callable[[Numbers], Numbers], list[Settings]]] = [
    ("choice", choice, [{}, {"choice": "hard"}, {"one": 3.3, "four": -4}]),
    ("heads", heads, [{}, {"N": 3, "M": 50, "h": 7, "dq": 11, "dv": 13, "headq": 5, "headv": 9, "dout": 2}]),
    ("norm", norm, [{}, {"axis": "sequence"}, {"axis": "token", "place": "outside", "size": -4, "shift": 2.5}]),
    (
        "residual",
        residual,
        [{}, {"place": "pre", "depth": 24}, {"residual": False}, {"place": "post"}, {"depth": 1, "residual": True}],
    ),
    (
        "mask",
        mask,
        [{}, {"cached": 3}, {"align": "left"}, {"scale": "none", "mask": False}, {"scale": "dim", "cached": 0}],
    ),
    ("order", order, [{}, {"positions": True}, {"shift": 4}]),
    ("scale", scale, [{}, {"scale": "none"}, {"scale": "dim", "size": 8}, {"size": 0}]),
    ("sinusoids", sinusoids, [{}, {"layout": "halves", "width": 12}, {"layout": "tensor2tensor", "length": 5}]),
    ("linformer", linformer, [{}, {"n": 136, "k": 8, "d": 16}]),
    ("table-one", table_one, [{}, {"n": 243, "d": 8, "k": 3, "r": 33}, {"n": 2, "k": 2, "r": 3}, {"n": 64, "k": 4}]),
    ("span", span, [{}, {"T": 0, "J": 10, "K": 4}, {"T": 10, "J": 4, "K": 0}]),
    ("sizes", sizes, [{}, {"n": 128, "d": 16, "h": 4}]),
]


@pytest.mark.parametrize(("name", "compute", "turns"), CASES, ids=[name for name, _, _ in CASES])
def test_the_page_computes_what_clearhead_computes(
    living: Any, name: str, compute: Callable[[Numbers], Numbers], turns: list[Settings]
) -> None:
    seen = []
    for settings in turns:
        numbers = turn(living, name, settings)
        for what, mine in compute(numbers).items():
            expected = torch.as_tensor(mine, dtype=torch.float64).detach()
            difference = (tensor(numbers[what]) - expected).abs().max()
            assert difference <= 1e-5 * max(1.0, float(expected.abs().max())), (what, settings)
        seen.append({key: value for key, value in numbers.items() if key != "settings"})
    assert all(one != seen[0] for one in seen[1:]), "turning something changes nothing"


def test_every_figure_is_checked_and_belongs_to_claims() -> None:
    ids = {claim.id for claim in claims()}
    assert {figure.name for figure in LIVING} == {name for name, _, _ in CASES}
    assert all(set(figure.claims) <= ids for figure in LIVING)
    assert {claim[:2] for figure in LIVING for claim in figure.claims} == {"L0", "L1", "L2", "L3", "L4"}


def test_a_wrong_script_is_noticed(living: Any) -> None:
    """The mutation: the page divides by d_k where the reader asked for √d_k."""
    numbers = turn(living, "mask", {"mask": True, "scale": "dim", "cached": 0, "align": "right"})
    numbers["settings"]["scale"] = "sqrt"
    assert (mask(numbers)["weights"] - tensor(numbers["weights"])).abs().max() > 1e-2


def test_what_is_said_is_what_was_computed(living: Any) -> None:
    numbers = turn(living, "scale", {"size": 4, "scale": "sqrt"})
    section = living.locator("#living-scale")
    said = section.locator("[role=status]").text_content()
    told = re.fullmatch(
        r"With d_k = 16 the variance of q·k/√d_k is (\S+), and a query looks at (\S+) of 16 keys\.", said
    )
    assert told
    assert math.isclose(float(told[1]), numbers["variance"], rel_tol=1e-3)
    assert math.isclose(float(told[2]), numbers["looked"], rel_tol=1e-3)
    assert section.locator("dd").first.text_content() == told[1]


def test_keys_turn_a_slider_and_the_button_turns_it_back(living: Any) -> None:
    section = living.locator("#living-linformer")
    slider = section.get_by_label("slots k")
    section.get_by_role("button").click()
    slider.focus()
    living.keyboard.press("ArrowRight")
    assert section.locator("output").nth(1).text_content() == "68"
    assert "n = 2k = 136" in section.locator("[role=status]").text_content()
    section.get_by_role("button").click()
    assert slider.input_value() == "64"
    assert "n = 2k = 128" in section.locator("[role=status]").text_content()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)])
def test_it_is_accessible_and_fits(file: Path, open_page: Open, width: int, dark: bool) -> None:
    opened = open_page(file, width=width, dark=dark)
    assert opened.locator("[data-living]:visible").count() == len(LIVING)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(opened) == []


def test_without_scripts_the_evidence_stays_and_the_controls_do_not(file: Path, open_page: Open) -> None:
    opened = open_page(file, java_script_enabled=False)
    assert opened.locator("article:visible").count() == len(claims())
    assert opened.locator("input:visible, [data-living-link]:visible").count() == 0


def test_a_figure_stands_once_and_the_other_claims_link_to_it() -> None:
    parts = living_parts(iter(["L2.9", "L4.8"]), LIVING)
    assert 'id="living-scale"' in parts["L2.9"]
    assert 'href="#living-scale"' in parts["L4.8"]
    alone = living_parts(iter(["L4.8", "L1.2"]), LIVING)
    assert 'id="living-scale"' in alone["L4.8"]
    assert "L1.2" not in alone


def test_controls_are_labelled() -> None:
    for control in (
        Slider("n", "tokens <n>", 1, 4, 2),
        Select("s", "tokens <n>", (("a", "b"),)),
        Switch("on", "tokens <n>"),
    ):
        assert '<label for="some-id">tokens &lt;n&gt;</label>' in control.html("some-id")
        assert 'id="some-id"' in control.html("some-id")
