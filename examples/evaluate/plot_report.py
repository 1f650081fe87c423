"""
Calibration report of a forecast
================================

A calibration report is a good starting point. It contains metrics, tests, the miscalibrated intervals of
predictions, and recommendations. It can be printed as text, displayed in notebooks, and written to a
self-contained HTML page.
"""

import matplotlib.pyplot as plt

from sklearn_calib.datasets import load_solar_flares
from sklearn_calib.plot import ReliabilityDisplay
from sklearn_calib.report import calibration_report

flares = load_solar_flares()
report = calibration_report(flares.y_true, flares.y_proba, name="solar flares")
print(report)

# %%
# Every finding is also available as an attribute. Here the miscalibrated intervals of the report are shaded
# in the reliability diagram. ``report.to_html("report.html")`` writes the page. The command ``python -m
# sklearn_calib report predictions.csv --y y --p p --out report.html`` creates a report without Python code.

fig, ax = plt.subplots(figsize=(6.8, 7), layout="constrained")
ReliabilityDisplay.from_predictions(flares.y_true, flares.y_proba, ax=ax)
for region in report.regions:
    ax.axvspan(region.lower, region.upper, color="C1", alpha=0.15, zorder=0)
    print(f"predictions from {region.lower:.2f} to {region.upper:.2f}:", end=" ")
    print(f"predicted {region.predicted:.2f}, observed {region.observed:.2f}")
ax.set_title("Solar flares: miscalibrated intervals of the report")
plt.show()
