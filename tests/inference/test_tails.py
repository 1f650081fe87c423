"""Tails of null distributions against series, simulation and scipy; densities as their derivatives."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2, norm

from sklearn_calib.inference._testing._tails import brownian_range_sf, chi2_sf, normal_two_sided, null_density
from tests._references import brownian_range_tail


def test_distribution_of_the_range():
    # Feller's series with many terms, wherever it converges
    for x in (0.3, 0.7, 1.3, 1.999, 2.0, 2.7, 6.0):
        assert brownian_range_sf(x) == pytest.approx(brownian_range_tail(x), rel=1e-9)
    assert brownian_range_sf(20) == pytest.approx(8 * norm.sf(20), rel=1e-12)
    assert brownian_range_sf(0) == brownian_range_sf(0.05) == brownian_range_sf(0.2) == 1
    assert 0 < brownian_range_sf(1e6) < 1e-300
    # mean and second moment: sqrt(8 / pi) and 4 log 2
    assert quad(brownian_range_sf, 0, 12)[0] == pytest.approx(np.sqrt(8 / np.pi), abs=1e-7)
    assert quad(lambda x: 2 * x * brownian_range_sf(x), 0, 12)[0] == pytest.approx(4 * np.log(2), abs=1e-7)


def test_normal_and_chi_squared_are_those_of_scipy():
    x = np.array([0.01, 0.5, 1.0, 3.0, 12.0])
    np.testing.assert_allclose(null_density("normal", x - 2), norm.pdf(x - 2), rtol=1e-13)
    for df in (1, 2, 3, 10):
        np.testing.assert_allclose(null_density(f"chi2({df})", x), chi2.pdf(x, df), rtol=1e-12)
        for value in x.tolist():
            assert chi2_sf(value, df) == pytest.approx(chi2.sf(value, df), rel=1e-12)
    for value in x.tolist():
        assert normal_two_sided(value) == normal_two_sided(-value) == pytest.approx(2 * norm.sf(value))
    assert chi2_sf(0.0, 3) == 1
    assert normal_two_sided(1e9) > 0
    assert chi2_sf(1e9, 2) > 0


def test_density_of_the_range_is_the_derivative_of_its_tail():
    def density(x):
        return float(null_density("brownian range", np.array([x]))[0])

    for low, high in ((0.0, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, 2.5), (2.5, 4.0), (4.0, 9.0)):
        expected = brownian_range_sf(low) - brownian_range_sf(high)
        assert quad(density, low, high, epsabs=1e-13)[0] == pytest.approx(expected, abs=1e-10)
    together = null_density("brownian range", np.array([0.05, 1.5, 3.0]))
    assert together.tolist() == [0.0, density(1.5), density(3.0)]


@pytest.mark.parametrize("distribution", ["chi2(0)", "chi2(2.5)", "chi2(x)", "chi2", "cauchy", ""])
def test_unknown_distributions(distribution):
    with pytest.raises(ValueError, match="asymptotic_null"):
        null_density(distribution, np.ones(1))
