"""
Estimating precision before labels are available
================================================

Outcomes of loans or treatments are known months after the prediction. Until then, ``expected_performance``
estimates classification metrics from the calibrated probabilities. The certificate of the calibrator gives
guaranteed intervals, provided that the probability of an event given the prediction does not change.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import beta, expit, logit

from sklearn_calib.calibrators import IsotonicCalibrator
from sklearn_calib.metrics import expected_performance

# %%
# The scores of a model increase from month to month. In the last four months the relation between scores and
# events changes as well (concept drift), which unlabeled samples cannot show.

rng = np.random.default_rng(0)


def month(number, n=20_000):
    score = rng.beta(1.5 + 0.15 * number, 3.0, n)
    shift = -1.0 if number >= 9 else -0.2
    return score, (rng.random(n) < expit(0.8 * logit(score) + shift)).astype(int)


score, y = month(0)
calibrator = IsotonicCalibrator().fit(score, y)
certificate = calibrator.cutoff_certificate()
print(certificate)

# %%
# The precision of each month is estimated without labels, and compared with the precision observed later. The
# density of the scores of a month is that of the first one times an increasing function, whose maximum is the
# ratio of two beta functions. Here it is known; otherwise you must be able to justify a bound.

months, estimates, observed = np.arange(1, 13), [], []
for number in months:
    score, y = month(number)
    p = calibrator.transform(score)
    ratio = beta(1.5, 3.0) / beta(1.5 + 0.15 * number, 3.0)
    found = expected_performance(p, threshold=0.4, certificate=certificate.upper, max_density_ratio=ratio)
    estimates.append(found.precision)
    observed.append(y[p >= 0.4].mean())
print(found)

# %%
# The intervals become wider as the distribution of the scores changes. They contain the observed precision
# while the assumption holds, and do not after the concept drift. Check the estimates as soon as labels are
# available.

fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
value = np.array([estimate.estimate for estimate in estimates])
lower, upper = ([getattr(e, end) for e in estimates] for end in ("lower", "upper"))
ax.fill_between(months, lower, upper, alpha=0.2, label="guaranteed interval")
ax.plot(months, value, label="expected, without labels")
ax.plot(months, observed, "o", color="C1", label="observed later")
ax.axvline(8.5, color="0.4", linestyle=":")
ax.set(xlabel="Month", ylabel="Precision at threshold 0.4", xticks=months)
ax.set_title("The intervals hold under a shift of the scores, not under concept drift")
ax.legend(loc="lower left")
plt.show()
