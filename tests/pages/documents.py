"""Documents as ``View.as_dict()`` gives them, made up: one of each family, with numbers that obey the identities."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def rows(chance: np.random.Generator, n: int, m: int, *, causal: bool = False, near: float = 0.0) -> NDArray[Any]:
    """(n, m) attention whose rows sum to 1; ``near`` makes it diagonal."""
    scores = chance.normal(size=(n, m)) * 1.5
    i, j = np.mgrid[:n, :m]
    scores -= near * np.abs(i * max(m - 1, 1) / max(n - 1, 1) - j)
    if causal:
        scores[j > i] = -np.inf
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(weights / weights.sum(1, keepdims=True))


def stacked(chance: np.random.Generator, layers: int, heads: int, n: int, m: int, **form: Any) -> tuple[Any, Any]:
    """[layer][head][query][key] of attention, and of norms."""
    attention = [[rows(chance, n, m, **form) for _ in range(heads)] for _ in range(layers)]
    norms = [[head * chance.uniform(0.1, 3.0, size=m) for head in layer] for layer in attention]
    return ([[head.tolist() for head in layer] for layer in kind] for kind in (attention, norms))  # type: ignore[return-value]


def likely(chance: np.random.Generator, tokens: list[str], best: str, count: int) -> list[dict[str, Any]]:
    """Tokens with probabilities, the best first."""
    found = np.sort(chance.dirichlet(np.full(count + 1, 0.4)))[::-1][:count]
    names = [best, *(token for token in tokens if token != best)][:count]
    return [{"token": name, "probability": float(p)} for name, p in zip(names, found, strict=False)]


def parts_of(
    chance: np.random.Generator, at: int, token: str, layers: int, heads: int, against: str | None
) -> dict[str, Any]:
    """Parts that add up to a logit."""
    names = ["embedding"]
    for layer in range(1, layers + 1):
        for kind in ("self", "cross"):
            names += [f"decoder.{layer}.{kind}.{head}" for head in range(1, heads + 1)]
            names.append(f"bias decoder.{layer}.{kind}")
        names.append(f"decoder.{layer}.feedforward")
    values = chance.normal(0.3, 0.8, size=len(names))
    found = [{"name": name, "value": float(value)} for name, value in zip(names, values, strict=True)]
    return {"at": at, "token": token, "logit": float(values.sum()), "against": against, "parts": found}


def roles(chance: np.random.Generator, stacks: dict[str, tuple[int, int]]) -> list[dict[str, Any]]:
    """Heads with a role and an importance, the most important first."""
    kinds = ("previous", "next", "first", "same", "diagonal", "broad")
    heads = [
        {
            "name": f"{stack}.{layer}.{head}",
            "stack": stack,
            "layer": layer,
            "head": head,
            "role": str(chance.choice(kinds)),
            "score": float(chance.uniform(0.3, 1.0)),
            "importance": float(chance.exponential(0.2)),
        }
        for stack, (layers, count) in stacks.items()
        for layer in range(1, layers + 1)
        for head in range(1, count + 1)
    ]
    return sorted(heads, key=lambda head: -float(head["importance"]))


def beam(written: list[str], logs: NDArray[Any]) -> list[dict[str, Any]]:
    """The tree of a search of two beams: beside each token of the answer one that is cut, at the end another answer."""
    nodes: list[dict[str, Any]] = []
    path: list[int] = []  # the winning nodes
    for step, token in enumerate(written):
        last, total = step + 1 == len(written), float(logs[: step + 1].sum())
        parent = path[-1] if path else None
        fates = ("finished", "finished") if last else ("continued", "cut")
        path.append(len(nodes))
        for name, value, fate, rank in ((token, total, fates[0], 1), (f"{token}'", total - 2.5, fates[1], 2)):
            node = {"parent": parent, "token": name, "log_probability": value, "score": value / (step + 1)}
            nodes.append(node | {"fate": fate, "rank": rank if last else None})
    return nodes


def seq2seq(
    source: str = "l o v e l y </s>",
    answer: str = "L AH V L IY </s>",
    layers: int = 2,
    heads: int = 4,
    seed: int = 1,
    *,
    recurrent: bool = False,
) -> dict[str, Any]:
    """A translation."""
    chance = np.random.default_rng(seed)
    given, written = source.split(), answer.split()
    n, m = len(given), len(written)
    cross, cross_norms = stacked(chance, layers, heads, m, n, near=0.9)
    encoder, encoder_norms = stacked(chance, layers, heads, n, n, near=0.4)
    decoder, decoder_norms = stacked(chance, layers, heads, m, m, causal=True)
    p = chance.beta(4, 1, size=m)
    document: dict[str, Any] = {
        "format": 1,
        "family": "seq2seq",
        "model": {"name": "runs/demo", "parameters": 3_130_368},
        "text": "".join(given[:-1]),
        "source": given,
        "answer": written,
        "answer_text": " ".join(written[:-1]),
        "given": 0,
        "log_probabilities": np.log(p).tolist(),
        "alternatives": [likely(chance, written, token, 5) for token in written],
        "n_best": [
            {"text": " ".join(written[:-1]), "log_probability": float(np.log(p).sum())},
            {"text": " ".join(written[:-2]), "log_probability": float(np.log(p).sum() - 2.1)},
        ],
        "beam": beam(written, np.log(p)),
        "attention": {"cross": cross, "decoder": decoder, "encoder": encoder},
        "norms": {"cross": cross_norms, "decoder": decoder_norms, "encoder": encoder_norms},
        "inputs_of": {"decoder": ["<s>", *written[:-1]]},
        "rollout": {
            "encoder": rows(chance, n, n).tolist(),
            "decoder": [rows(chance, 1, n + i + 1)[0].tolist() for i in range(m)],
        },
        "lens": {
            "decoder": [[likely(chance, written, token, 3) for token in written] for _ in range(layers + 1)],
        },
        "decoder_lens": [{"text": written, "log_probabilities": np.log(p).tolist()} for _ in range(layers + 1)],
        "parts": [parts_of(chance, at, token, layers, heads, None) for at, token in enumerate(written)]
        + [parts_of(chance, 1, written[1], layers, heads, "EH")],
        "inputs": [
            {
                "at": 1,
                "delta": 3.1,
                "error": 0.0021,
                "steps": 128,
                "source": chance.normal(size=n).tolist(),
                "prefix": chance.normal(size=2).tolist(),
            }
        ],
        "occlusion": [{"at": at, "source": chance.normal(0.5, 1, size=n).tolist()} for at in range(m)],
        "alignment": [[min(i, n - 2), i] for i in range(m - 1)],
        "heads": roles(chance, dict.fromkeys(("cross", "decoder", "encoder"), (layers, heads))),
        "left_out": [],
        "refused": {},
    }
    if recurrent:
        document |= {"family": "recurrent", "refused": {"parts": "no parts: a recurrent net is no sum of parts"}}
        for name in ("parts", "norms", "rollout", "lens", "decoder_lens", "heads", "beam"):
            del document[name]
        document["attention"] = {"cross": [[rows(chance, m, n, near=1.2).tolist()]]}
    return document


def lm(length: int = 24, given: int = 9, seed: int = 2) -> dict[str, Any]:
    """A continued text; tokens begin with the space before them."""
    chance = np.random.default_rng(seed)
    words = "_The _sun _rose _over _the _caf é _and _the _birds _began _to _sing , _as _if _nothing < _had _happened"
    pieces = words.replace("_", "\N{NO-BREAK SPACE}").split(" ")
    pieces = [piece.replace("\N{NO-BREAK SPACE}", " ") for piece in pieces]
    written = [pieces[i % len(pieces)] for i in range(length - 1)] + ["</s>"]
    layers, heads = 3, 4
    attention, norms = stacked(chance, layers, heads, length, length, causal=True, near=0.15)
    p = chance.beta(2, 2, size=length)
    document: dict[str, Any] = seq2seq(seed=seed)
    for name in ("source", "n_best", "beam", "decoder_lens", "alignment", "inputs", "occlusion"):
        del document[name]
    return document | {
        "family": "lm",
        "text": "The sun rose over the café and",
        "answer": written,
        "answer_text": "The sun rose over the café and the birds began to sing",
        "given": given,
        "log_probabilities": [None, *np.log(p)[1:].tolist()],
        "alternatives": [likely(chance, written, token, 5) for token in written],
        "attention": {"decoder": attention},
        "norms": {"decoder": norms},
        "inputs_of": {"decoder": ["<s>", *written[:-1]]},
        "rollout": {"decoder": [rows(chance, 1, i + 1)[0].tolist() for i in range(length)]},
        "lens": {"decoder": [[likely(chance, written, token, 3) for token in written] for _ in range(layers + 1)]},
        "parts": [parts_of(chance, at, token, layers, heads, None) for at, token in enumerate(written)],
        "heads": roles(chance, {"decoder": (layers, heads)}),
    }


def encoder(seed: int = 3) -> dict[str, Any]:
    """A gap to be filled."""
    chance = np.random.default_rng(seed)
    given = ["<s>", "paris", "is", "the", "<mask>", "of", "france", ".", "</s>"]
    n, layers, heads = len(given), 2, 4
    attention, norms = stacked(chance, layers, heads, n, n)
    document = seq2seq(seed=seed)
    for name in ("n_best", "beam", "decoder_lens", "alignment", "inputs", "inputs_of"):
        del document[name]
    candidates = ["capital", "heart", "centre", "city", "<b>"]
    return document | {
        "family": "encoder",
        "text": "paris is the <mask> of france .",
        "source": given,
        "answer": ["capital"],
        "answer_text": "paris is the capital of france .",
        "log_probabilities": [-0.21],
        "rows": [4],
        "alternatives": [likely(chance, candidates, "capital", 5)],
        "attention": {"encoder": attention},
        "norms": {"encoder": norms},
        "rollout": {"encoder": rows(chance, n, n).tolist()},
        "lens": {"encoder": [[likely(chance, candidates, "capital", 3) for _ in given] for _ in range(layers + 1)]},
        "parts": [parts_of(chance, 0, "capital", layers, heads, None)],
        "occlusion": [{"at": 0, "source": chance.normal(size=n).tolist()}],
        "heads": roles(chance, {"encoder": (layers, heads)}),
    }


def classifier(seed: int = 4) -> dict[str, Any]:
    """A text with a label."""
    document = encoder(seed)
    chance = np.random.default_rng(seed)
    given = ["<s>", "what", "a", "lovely", ",", "if", "slightly", "long", ",", "evening", "</s>"]
    n = len(given)
    attention, norms = stacked(chance, 2, 4, n, n)
    del document["lens"]
    return document | {
        "family": "classifier",
        "text": " ".join(given[1:-1]),
        "source": given,
        "answer": ["positive"],
        "rows": [0],
        "answer_text": "positive",
        "alternatives": [
            [
                {"token": name, "probability": p}
                for name, p in (("positive", 0.83), ("neutral", 0.12), ("negative", 0.05))
            ]
        ],
        "attention": {"encoder": attention},
        "norms": {"encoder": norms},
        "rollout": {"encoder": rows(chance, n, n).tolist()},
        "inputs": [{"at": 0, "delta": 2.2, "error": 0.001, "steps": 64, "source": chance.normal(size=n).tolist()}],
        "occlusion": [{"at": 0, "source": chance.normal(size=n).tolist()}],
    }


def picture(seed: int = 5) -> dict[str, Any]:
    """A picture with a label."""
    chance = np.random.default_rng(seed)
    document = classifier(seed)
    del document["inputs"]
    n = 16
    attention, norms = stacked(chance, 2, 4, n, n)
    y, x = np.mgrid[:8, :8]
    pixels = np.clip(16 - 6 * np.abs(np.hypot(y - 3.5, x - 3.5) - 2.5), 0, 16)
    return document | {
        "text": " ".join(str(int(pixel)) for pixel in pixels.flatten()),
        "source": [f"r{1 + i // 4}c{1 + i % 4}" for i in range(n)],
        "answer": ["0"],
        "answer_text": "0",
        "alternatives": [[{"token": name, "probability": p} for name, p in (("0", 0.91), ("6", 0.05), ("8", 0.02))]],
        "attention": {"encoder": attention},
        "norms": {"encoder": norms},
        "rollout": {"encoder": rows(chance, n, n).tolist()},
        "occlusion": [{"at": 0, "source": chance.normal(size=n).tolist()}],
        "image": {"rows": 4, "columns": 4, "patch": 2, "pixels": pixels.tolist()},
    }


DOCUMENTS = {
    "seq2seq": seq2seq,
    "recurrent": lambda: seq2seq(recurrent=True),
    "lm": lm,
    "encoder": encoder,
    "classifier": classifier,
    "picture": picture,
}
