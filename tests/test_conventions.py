"""The table "Conventions of signatures" of docs/architecture.md, for every public function and method."""

import importlib
import inspect

import pytest

SUBPACKAGES = ("metrics", "calibrators", "meta", "inference", "plot", "report", "export", "sketch", "monitor")
SUBPACKAGES += ("scorers", "datasets")
#: Each of many populations is simulated so often.
IN_POPULATIONS = {"confidence_interval", "calibration_report", "CalibrationRequirements.check"}


def signatures():
    for subpackage in SUBPACKAGES:
        module = importlib.import_module(f"sklearn_calib.{subpackage}")
        for name in module.__all__:
            value = getattr(module, name)
            if not callable(value) or (inspect.isclass(value) and issubclass(value, Warning)):
                continue
            yield subpackage, name, inspect.signature(value)
            for method, member in inspect.getmembers(value) if inspect.isclass(value) else ():
                if not method.startswith("_") and inspect.isroutine(member):
                    ours = (getattr(member, "__module__", None) or "").startswith("sklearn_calib")
                    if ours and not method.endswith("_request"):
                        yield subpackage, f"{name}.{method}", inspect.signature(member)


SIGNATURES = list(signatures())


def defaults(parameter):
    """Return the defaults of a parameter, by name of the function, where it has one."""
    return {
        name: (subpackage, signature.parameters[parameter].default)
        for subpackage, name, signature in SIGNATURES
        if parameter in signature.parameters
        and signature.parameters[parameter].default is not inspect.Parameter.empty
    }


def test_annotations_are_short():
    """A module without "from __future__ import annotations" shows array-like as a long union."""
    for _, name, signature in SIGNATURES:
        for parameter in signature.parameters.values():
            shown = inspect.formatannotation(parameter.annotation)
            assert len(shown) <= 120, (name, shown)


def test_random_states():
    found = defaults("random_state")
    assert len(found) > 20
    expected = {name for name, (subpackage, _) in found.items() if subpackage == "datasets"}
    assert {name for name, (subpackage, value) in found.items() if value is None} == expected
    assert {value for _, value in found.values()} == {0, None}


def test_numbers_of_simulations():
    for name, (_, value) in defaults("n_resamples").items():
        assert value == (200 if name in IN_POPULATIONS else 999), name


@pytest.mark.parametrize(("parameter", "expected"), [("confidence", 0.95), ("alpha", 0.05)])
def test_levels(parameter, expected):
    found = defaults(parameter)
    assert found
    assert {name: value for name, (_, value) in found.items() if value not in (expected, None)} == {}


def test_arguments_of_samples_are_keywords_in_one_order():
    order = ["sample_weight", "weights", "clusters", "pos_label", "reduction", "labels"]
    seen = 0
    for _, name, signature in SIGNATURES:
        parameters = signature.parameters
        # a collection of Dask can hold both
        if not {"y_true", "y_proba"} <= set(parameters) or name == "sketch_dask":
            continue
        seen += 1
        names = [key for key in parameters if key not in ("self", "cls", "X")]
        assert names[:2] == ["y_true", "y_proba"], name
        keywords = [key for key in names[2:] if parameters[key].kind is inspect.Parameter.KEYWORD_ONLY]
        passed_on = [key for key in names[2:] if parameters[key].kind is inspect.Parameter.VAR_KEYWORD]
        assert names[2:] == keywords + passed_on or not keywords, name
        shared = [key for key in names if key in order]
        assert shared == sorted(shared, key=order.index), name
        for key in ("y_true", "y_proba"):
            assert parameters[key].default is inspect.Parameter.empty, name
    assert seen > 30


def test_what_is_switched_off_is_none():
    for parameter in ("band", "correction", "reference"):
        assert all(value != "none" for _, value in defaults(parameter).values()), parameter
