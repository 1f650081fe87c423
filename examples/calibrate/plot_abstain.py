"""
When should a model abstain?
============================

A language model answers multiple-choice questions and states a confidence. It should answer only if at most
10% of its answers are wrong. :class:`~sklearn_calib.SelectiveClassifier` chooses the threshold of the
confidence such that this holds for new questions, with a probability of 95%.
"""

import matplotlib.pyplot as plt
from sklearn.frozen import FrozenEstimator

from sklearn_calib import SelectiveClassifier
from sklearn_calib.calibrators import SplineCalibrator
from sklearn_calib.datasets import load_mmlu_answers
from sklearn_calib.plot import RiskCoverageDisplay

answers = load_mmlu_answers()
correct, confidence = answers.y_true, answers.y_proba
spline = SplineCalibrator(monotone=True).fit(confidence[:2000], correct[:2000])

# %%
# The threshold is chosen on other questions than those to which the calibrator was fitted. The risk is 1 -
# precision of "the answer is correct".

model = SelectiveClassifier(FrozenEstimator(spline), risk="false_discovery", target=0.1, random_state=0).fit(
    confidence[2000:4000], correct[2000:4000]
)
print(f"answer from confidence {model.threshold_:.3f}: coverage {model.coverage_:.2f}")
print(f"observed risk {model.risk_:.3f}, at most {model.risk_bound_:.3f} with 95% confidence")

# %%
# On the remaining questions the risk is below the target at the chosen threshold. The curve alone would
# suggest a threshold at which the risk is just the target, without a margin for the error of the estimate.

display = RiskCoverageDisplay.from_estimator(
    model, confidence[4000:], correct[4000:], name="new questions", confidence=0.95
)
display.ax_.axhline(model.target, color="0.4", linestyle=":")
plt.show()
