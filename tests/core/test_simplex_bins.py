import numpy as np

from sklearn_calib._core._simplex_bins import alcoves, shared_alcoves


def plain_cell(z, m):
    """Return the integer parts of m (z_1 + ... + z_i), and the order of the fractional parts."""
    c = np.minimum(m * np.cumsum(z[:-1]), np.nextafter(m, 0))
    whole = np.floor(c)
    fractions = c - whole
    return tuple(whole), tuple(sorted(range(len(c)), key=lambda i: (fractions[i], i)))


def same_partition(first, second):
    pairs = set(zip(first, second, strict=True))
    return len(pairs) == len(set(first)) == len(set(second))


def test_cells_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    for n_classes in (2, 3, 4, 7):
        z = rng.dirichlet(np.ones(n_classes), 400)
        for m in (1, 2, 5):
            assert same_partition(alcoves(z, m).tolist(), [plain_cell(row, m) for row in z])


def test_two_classes_have_the_bins_of_the_last_column():
    p = np.linspace(0, 1, 101)
    for m in (2, 10, 100):
        expected = np.minimum(np.arange(101) * m // 100, m - 1)
        assert alcoves(np.column_stack((1 - p, p)), m).tolist() == expected.tolist()


def test_cells_have_equal_volume():
    z = np.random.default_rng(0).dirichlet(np.ones(3), 160_000)
    _, count = np.unique(alcoves(z, 4), return_counts=True)
    assert count.shape == (16,)
    # chi-squared with 15 degrees of freedom
    assert np.sum((count - 10_000) ** 2 / 10_000) < 37.7
    _, count = np.unique(alcoves(z[:, :2] / z[:, :2].sum(1, keepdims=True), 10), return_counts=True)
    assert count.shape == (10,)


def test_cells_are_narrow():
    z = np.random.default_rng(1).dirichlet(np.ones(4), 3000)
    cells = shared_alcoves(z, 6)
    for first, size in zip(cells.starts, cells.count, strict=True):
        members = z[cells.rows[first : first + size]]
        # a coordinate c_i varies by less than 1 in a cell, and so does any difference of two
        assert np.ptp(members, axis=0).max() <= 1 / 6


def test_finer_cells_lie_in_coarser_ones():
    z = np.random.default_rng(2).dirichlet(np.ones(4), 5000)
    coarse, fine = alcoves(z, 3), alcoves(z, 6)
    assert len(set(zip(coarse.tolist(), fine.tolist(), strict=True))) == len(set(fine.tolist()))
    among = shared_alcoves(z, 3).rows
    direct, refined = shared_alcoves(z, 6), shared_alcoves(z, 6, among)
    assert sorted(direct.rows.tolist()) == sorted(refined.rows.tolist())
    assert sorted(direct.count.tolist()) == sorted(refined.count.tolist())


def test_faces_and_corners_belong_to_the_simplex():
    z = np.array([[1, 0, 0], [1 - 1e-12, 1e-12, 0], [0, 0, 1], [1e-13, 1e-13, 1 - 2e-13], [0, 1, 0]])
    code = alcoves(z, 2)
    assert code[2] == code[3]
    # a single whole number: a corner and a row inside, fractional parts in the same order
    inside = np.array([[0.5, 0.3, 0.2]])
    assert alcoves(z[:1], 1) == alcoves(inside, 1)
    # no cell beyond the last whole number
    everything = alcoves(np.vstack((z, np.random.default_rng(0).dirichlet(np.ones(3), 1000))), 2)
    assert np.unique(everything).shape == (4,)


def test_cells_of_one_row_are_left_out():
    z = np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.91, 0.05, 0.04]])
    cells = shared_alcoves(z, 4)
    assert sorted(cells.rows.tolist()) == [0, 2]
    assert cells.count.tolist() == [2]
    assert shared_alcoves(z[:2], 4).rows.shape == (0,)
