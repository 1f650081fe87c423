"""Input validation: all arguments of public functions are checked here, once, before any computation.

Every failure is a ``ValueError`` (or ``TypeError`` for an object of the wrong type) that names the argument,
what was found, and what to do. Inputs are never modified silently.
"""

from __future__ import annotations

from sklearn_calib._validation._arrays import as_array, as_samples, missing_values, shape_of
from sklearn_calib._validation._columns import (
    categorical,
    column_names,
    read_column,
    table_columns,
)
from sklearn_calib._validation._labels import (
    check_classes,
    check_clusters,
    check_columns,
    check_columns_of,
    check_groups,
    check_indicators,
    check_labels,
    check_order,
    check_pos_label,
    check_sorted,
    check_two_labels,
    greater_text,
    label_columns,
    named_classes,
    place_labels,
    positive_label,
    refuse_fractions,
    refuse_missing,
)
from sklearn_calib._validation._numbers import (
    CONVERT,
    LARGEST_SCORE,
    ROUNDING,
    ROW_SUM_TOLERANCE,
    check_counting,
    check_counts,
    check_frequency_weights,
    check_length,
    check_numbers,
    check_probabilities,
    check_response,
    check_scores,
    check_weights,
    only_rounding,
    warn_of_scale,
)
from sklearn_calib._validation._parameters import (
    check_below_one,
    check_flag,
    check_fraction,
    check_generator,
    check_integer,
    check_not_negative,
    check_number_or_edges,
    check_option,
    check_positive,
    check_randomness,
    check_resamples,
    check_size,
    least_resamples,
    seed_of,
)
from sklearn_calib._validation._samples import (
    BinarySample,
    ClassSample,
    check_binary,
    check_class_sample,
    own_predictions,
    samples_of_groups,
)
from sklearn_calib._validation._warnings import warn_user
