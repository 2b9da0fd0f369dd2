"""A scikit-learn estimator as a file: skops, which holds no code, made the same byte for byte."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from typing import Any

# what scikit-learn's own estimators hold and skops leaves to its callers to trust
_TRUSTED = (
    "functools.partial",
    "numpy.dtype",
    "sklearn._loss.loss.HalfTweedieLossIdentity",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils.validation.check_array",
)
_ADDRESS = re.compile(r'(?<="__id__": )\d+|(?<=")\d+(?=\.np[yz]")')
_SCHEMA = "schema.json"


def dump(estimator: Any) -> bytes:
    """Return a fitted estimator as a skops file; equal estimators give equal bytes.

    skops names things by their memory addresses and zips them with the time of day: both are
    replaced, by numbers in order of appearance and by the first day zip files know.
    """
    import skops.io

    source = zipfile.ZipFile(io.BytesIO(skops.io.dumps(estimator)))
    schema = source.read(_SCHEMA).decode()
    addresses: dict[str, str] = {}
    for address in _ADDRESS.findall(schema):
        addresses.setdefault(address, str(len(addresses)))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            stem, _, suffix = name.partition(".")
            content = source.read(name)
            if name == _SCHEMA:
                content = _ADDRESS.sub(lambda match: addresses[match[0]], schema).encode()
            entry = zipfile.ZipInfo(f"{addresses.get(stem, stem)}.{suffix}")
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def load(data: bytes, trusted: Sequence[str]) -> Any:
    """Rebuild an estimator from `dump`.

    Parameters
    ----------
    data : bytes
        The file.
    trusted : sequence of str
        Full names of types to load besides scikit-learn's.

    Raises
    ------
    ValueError
        If the file holds types that are not trusted.
    """
    import skops.io

    unknown = sorted(set(skops.io.get_untrusted_types(data=data)) - {*_TRUSTED, *trusted})
    if unknown:
        raise ValueError(
            f"the model's file holds types that are not trusted: {', '.join(unknown)}; "
            "name them in trusted= if you know where the file comes from"
        )
    return skops.io.loads(data, trusted=[*_TRUSTED, *trusted])
