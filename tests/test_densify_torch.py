"""densify in torch is densify in numpy, and lets gradients through to the weights that were kept."""

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch", reason="densify in torch needs torch")

from denslice import InputError, Slicing, densify  # noqa: E402
from denslice.encoders.torch.densify_torch import densify_torch  # noqa: E402

rng = np.random.default_rng(7)
WEIGHTS = np.where(rng.random((20, 601)) < 0.2, rng.integers(0, 4, (20, 601)), 0).astype(np.float32)  # many ties
WEIGHTS[3] = 0


@pytest.mark.parametrize(
    "slicing",
    [
        Slicing.stride(601, 8, skip=5),
        Slicing.stride(601, 601),
        Slicing.stride(601, 700),
        Slicing.contiguous(601, 2),
        Slicing.contiguous(601, 1, skip=3),
        Slicing.random(601, 64, skip=10, seed=3),
        Slicing.learned(sp.csr_array(WEIGHTS), 16),
    ],
    ids=lambda slicing: f"{slicing.kind}-{slicing.slices}",
)
def test_densify_in_torch_equals_densify_in_numpy(slicing: Slicing) -> None:
    values, gates = densify_torch(torch.from_numpy(WEIGHTS), slicing)
    expected = densify(WEIGHTS, slicing)
    np.testing.assert_array_equal(values.numpy(), expected.values)
    np.testing.assert_array_equal(gates.numpy(), expected.gates)


def test_gradients_reach_only_the_weights_that_were_kept() -> None:
    weights = torch.tensor([[9.0, 1.0, 2.0, 3.0, 3.0, 0.0]], requires_grad=True)
    values, gates = densify_torch(weights, Slicing.contiguous(6, 2, skip=1))  # slices {1, 2, 3} and {4, 5}
    values.sum().backward()  # type: ignore[no-untyped-call]
    assert values.tolist() == [[3.0, 3.0]]
    assert gates.tolist() == [[2, 0]]
    assert weights.grad is not None
    assert weights.grad.tolist() == [[0.0, 0.0, 0.0, 1.0, 1.0, 0.0]]


def test_another_vocabulary_is_refused() -> None:
    with pytest.raises(InputError, match="6 columns, expected a vocabulary of 7"):
        densify_torch(torch.zeros(1, 6), Slicing.stride(7, 2))
