"""Standardising, removing top components and whitening: against their definitions, scikit-learn, and each other."""

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA

from boustro.heads.transforms import TRANSFORMS, Standardised, TopRemoved, Whitened, shrunk_covariance


def sample(size: int, width: int = 12) -> np.ndarray:
    """Correlated dimensions of different scale and mean, one of them far from the others."""
    generator = np.random.default_rng(3)
    mixed = generator.normal(size=(size, width)) @ (np.eye(width) + 0.2 * generator.normal(size=(width, width)))
    mixed[:, 4] = mixed[:, 4] * 20 + 300
    return mixed.astype(np.float32)


def test_standardised_vectors_have_mean_0_and_variance_1():
    x = sample(9000)
    y = TRANSFORMS["standardised"].fit(x).apply(x)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(y.std(0), 1, atol=1e-3)


def test_a_constant_dimension_is_only_centred():
    x = sample(50)
    x[:, 2] = 7
    y = Standardised.fit(x).apply(np.vstack([x, x[:1] + 1]))
    assert np.all(y[:50, 2] == 0) and y[50, 2] == 1


def test_top_components_are_those_of_pca():
    x = sample(200)
    found = TopRemoved.fit_components(x, 3)
    oracle = PCA(3).fit(x)
    np.testing.assert_allclose(np.abs(found.components @ oracle.components_.T), np.eye(3), atol=1e-3)
    y = found.apply(x)
    np.testing.assert_allclose(y @ oracle.components_.T, 0, atol=0.05)
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-3)
    assert TRANSFORMS["top-removed"].fit(x).arrays()["components"].shape == (1, 12)


def test_the_shrinkage_is_ledoit_and_wolfs():
    for size in (8, 30, 5000):
        x = sample(size)
        _, covariance, shrinkage = shrunk_covariance(x)
        _, oracle = ledoit_wolf(x.astype(float))
        np.testing.assert_allclose(covariance, np.cov(x.T.astype(float), bias=True), rtol=1e-6)
        assert shrinkage == pytest.approx(oracle, abs=1e-9)


def test_whitened_vectors_are_uncorrelated():
    x = sample(20_000)
    y = Whitened.fit(x).apply(x)
    covariance = np.cov(y.T)
    assert abs(covariance - np.diag(np.diag(covariance))).max() < 0.02
    np.testing.assert_allclose(np.diag(covariance), 1, atol=0.01)


def test_whitening_few_vectors_keeps_them_finite_and_apart():
    x = sample(5)
    y = Whitened.fit(x).apply(sample(7))
    assert np.isfinite(y).all() and np.linalg.matrix_rank(y) > 4
    same = np.ones((3, 4), np.float32)
    assert np.isfinite(Whitened.fit(same).apply(same)).all()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_is_its_arrays(name: str):
    x = sample(40)
    transform = TRANSFORMS[name].fit(x)
    again = TRANSFORMS[name].from_arrays({**transform.arrays(), "other": x})
    np.testing.assert_array_equal(transform.apply(x), again.apply(x))
    assert all(array.dtype == np.float32 for array in transform.arrays().values())
    one = transform.apply(x[3])
    np.testing.assert_allclose(one, transform.apply(x)[3], rtol=1e-4, atol=1e-4)
    assert transform.apply(x.reshape(4, 10, 12)).shape == (4, 10, 12)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_no_vectors_are_refused(name: str):
    for bad in (np.zeros((0, 4)), np.zeros(4), np.zeros((2, 3, 4))):
        with pytest.raises(ValueError, match=r"vectors \(n, d\)"):
            TRANSFORMS[name].fit(bad)
