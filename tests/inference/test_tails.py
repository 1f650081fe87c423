"""Densities of null distributions against scipy, and as derivatives of the tails."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2, norm

from sklearn_calib.inference._tails import brownian_range_sf, chi2_sf, normal_two_sided, null_density


def test_normal_and_chi_squared_are_those_of_scipy():
    x = np.array([0.01, 0.5, 1.0, 3.0, 12.0])
    np.testing.assert_allclose(null_density("normal", x - 2), norm.pdf(x - 2), rtol=1e-13)
    for df in (1, 2, 3, 10):
        np.testing.assert_allclose(null_density(f"chi2({df})", x), chi2.pdf(x, df), rtol=1e-12)
        for value in x.tolist():
            assert chi2_sf(value, df) == pytest.approx(chi2.sf(value, df), rel=1e-12)
    for value in x.tolist():
        assert normal_two_sided(value) == normal_two_sided(-value) == pytest.approx(2 * norm.sf(value))


def test_density_of_the_range_is_the_derivative_of_its_tail():
    def density(x):
        return float(null_density("brownian range", np.array([x]))[0])

    # the two series meet at 2, and the density is negligible below .1
    for low, high in ((0.0, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, 2.5), (2.5, 4.0), (4.0, 9.0)):
        expected = brownian_range_sf(low) - brownian_range_sf(high)
        assert quad(density, low, high, epsabs=1e-13)[0] == pytest.approx(expected, abs=1e-10)
    assert density(2.0) == pytest.approx(density(np.nextafter(2.0, 0.0)), rel=1e-10)
    # mean and second moment of the range of Brownian motion: sqrt(8 / pi) and 4 log 2
    assert quad(lambda x: x * density(x), 0, 12, points=[2])[0] == pytest.approx(np.sqrt(8 / np.pi), abs=1e-8)
    assert quad(lambda x: x * x * density(x), 0, 12, points=[2])[0] == pytest.approx(4 * np.log(2), abs=1e-8)
    together = null_density("brownian range", np.array([0.05, 1.5, 3.0]))
    assert together.tolist() == [0.0, density(1.5), density(3.0)]


@pytest.mark.parametrize("distribution", ["chi2(0)", "chi2(2.5)", "chi2", "t", ""])
def test_unknown_laws(distribution):
    with pytest.raises(ValueError, match="asymptotic_null"):
        null_density(distribution, np.ones(1))
