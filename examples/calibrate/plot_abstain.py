"""
Abstention with a guaranteed error rate
=======================================

A language model answers multiple-choice questions and states a confidence. At most 10% of the answers that it
gives should be wrong; it abstains from the other questions. :class:`~sklearn_calib.SelectiveClassifier`
chooses the confidence threshold such that this holds for new questions with a confidence of 95%.
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
# The threshold is chosen on questions that were not used to fit the calibrator. With
# ``risk="false_discovery"`` the risk is the fraction of wrong answers among those given.

model = SelectiveClassifier(FrozenEstimator(spline), risk="false_discovery", target=0.1, random_state=0).fit(
    confidence[2000:4000], correct[2000:4000]
)
print(f"answer from confidence {model.threshold_:.3f}: coverage {model.coverage_:.2f}")
print(f"observed risk {model.risk_:.3f}, at most {model.risk_bound_:.3f} with 95% confidence")

# %%
# On the remaining questions the risk at the chosen threshold is below the target. A threshold that is read
# off the risk-coverage curve, where the observed risk equals the target, has no margin for sampling error.

display = RiskCoverageDisplay.from_estimator(
    model, confidence[4000:], correct[4000:], name="new questions", confidence=0.95
)
display.ax_.axhline(model.target, color="0.4", linestyle=":")
display.ax_.set_title("The risk on new questions is below the target of 10%")
plt.show()
