"""What hypothesis draws for the properties: small samples made of the hardest numbers there are."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

#: More examples for a distribution that is not repeated for every row of a registry.
more = settings(max_examples=4 * settings.default.max_examples)

#: Half as many for what repeats a law in other words.
fewer = settings(max_examples=settings.default.max_examples // 2)

#: Twenty and more predictions of exactly 0 or 1, which the ends of the interval can make, are warned of.
certain_predictions = pytest.mark.filterwarnings("ignore:y_proba contains only 0 and 1:UserWarning")

#: Ends of the unit interval, denormal and tiny numbers, neighbors of round ones, edges of usual bins.
HARD = [
    0.0, 5e-324, 2.0**-1022, 1e-300, 1e-17, 2.0**-53, 1e-9, 0.05, 0.1, 0.29, 1 / 3, np.nextafter(0.5, 0.0),
    0.5, np.nextafter(0.5, 1.0), 0.58, 2 / 3, 0.7, 1.0 - 1e-9, 1.0 - 2.0**-52, 1.0 - 2.0**-53, 1.0,
]  # fmt: skip

dyadic = st.integers(0, 1024).map(lambda k: k / 1024)
probabilities = st.one_of(st.sampled_from(HARD), dyadic, st.floats(0.0, 1.0))
#: Of these 1 - p is a float, too.
ENDS = [2.0**-53, 2.0**-52, 1.0 - 2.0**-53, 1.0 - 2.0**-52, 0.0, 1.0]
symmetric = st.one_of(dyadic, st.sampled_from(ENDS))
frequencies = st.integers(0, 3)
labels = st.integers(0, 1)
#: Soft labels and means of judgments, with labels among them.
outcomes = st.one_of(labels.map(float), st.integers(0, 5).map(lambda k: k / 5), st.floats(0.0, 1.0))
wide = st.sampled_from([2.0**-60, 1e9, 2.0**40])
weights = st.one_of(st.integers(0, 5).map(float), st.floats(1e-6, 1e6), wide)


@st.composite
def samples(draw, p=probabilities, w=frequencies, least=1, most=24, both=False, y=labels):
    """Draw outcomes, predictions and weights, not all of them zero; if ``both``, of both outcomes."""
    n = draw(st.integers(least, most))
    kind = draw(st.sampled_from(["free", "one value", "ordered", "alternating"]))
    if kind == "one value":
        proba = [draw(p)] * n
    else:
        proba = draw(st.lists(p, min_size=n, max_size=n))
        proba = proba if kind == "free" else sorted(proba)
    if kind == "alternating":
        y = [(i + n) % 2 for i in range(n)]
    else:
        y = draw(st.lists(y, min_size=n, max_size=n))
        if set(proba) <= {0.0, 1.0}:
            # otherwise these look like swapped arguments
            y = np.round(y).astype(int).tolist()
    w = draw(st.lists(w, min_size=n, max_size=n))
    if not any(w):
        w = [1] * n
    if both:
        y, proba, w = [*y, 0, 1], [*proba, draw(p), draw(p)], [*w, 1, 1]
    return np.array(y), np.array(proba, dtype=np.float64), np.array(w)


@st.composite
def permuted(draw, sample):
    """Draw another order of the rows."""
    order = np.array(draw(st.permutations(range(sample[0].shape[0]))))
    return tuple(values[order] for values in sample)
