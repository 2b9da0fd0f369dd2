"""The columns a scikit-learn estimator is given, raw or prepared, and those it uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.vocabulary import Schema


@dataclass(frozen=True)
class Columns:
    """Which features an estimator is given in which form.

    The order is: codes, numbers, one-hot. HistGradientBoosting moves its categorical columns to
    the front, so that with codes in front already its own order is this one.

    Attributes
    ----------
    schema : Schema
        The features.
    takes_missing : bool
        Whether numbers go in as they are; otherwise a missing one becomes the training mean and
        all are standardised.
    most_codes : int
        Categorical features of at most this many categories go in as codes; larger ones one-hot.
    """

    schema: Schema
    takes_missing: bool
    most_codes: int

    @property
    def codes(self) -> list[int]:
        """Features given as category codes."""
        return [i for i in self.schema.categorical if self._is_code(i)]

    @property
    def one_hot(self) -> list[int]:
        """Features given as one column for each category."""
        return [i for i in self.schema.categorical if not self._is_code(i)]

    @property
    def numeric(self) -> list[int]:
        """Features that are numbers."""
        return [i for i, size in enumerate(self.schema.n_categories) if not size]

    @property
    def feature_of_column(self) -> NDArray[np.int64]:
        """The feature each column comes from, shape (width,)."""
        one_hot = [i for i in self.one_hot for _ in range(self.schema.n_categories[i])]
        return np.array(self.codes + self.numeric + one_hot, dtype=np.int64)

    def transformer(self) -> Any:
        """Return an unfitted scikit-learn transformer, or "passthrough" where nothing changes."""
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        in_order = self.codes + self.numeric == list(range(len(self.schema.features)))
        if self.takes_missing and in_order:
            return "passthrough"
        standardise = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
        encode = OneHotEncoder(
            categories=[np.arange(float(self.schema.n_categories[i])) for i in self.one_hot],
            handle_unknown="ignore",
            sparse_output=False,
        )
        return ColumnTransformer(
            [
                ("codes", "passthrough", self.codes),
                ("numeric", "passthrough" if self.takes_missing else standardise, self.numeric),
                ("one_hot", encode, self.one_hot),
            ]
        )

    def _is_code(self, feature: int) -> bool:
        return self.schema.n_categories[feature] <= self.most_codes


def used_columns(estimator: Any) -> NDArray[np.int64] | None:
    """Return the columns that can change a prediction of a fitted estimator; None if not known."""
    from sklearn import ensemble, tree

    forests = (
        ensemble.RandomForestClassifier
        | ensemble.RandomForestRegressor
        | ensemble.ExtraTreesClassifier
        | ensemble.ExtraTreesRegressor
    )
    if isinstance(estimator, tree.DecisionTreeClassifier | tree.DecisionTreeRegressor):
        return _split_columns([estimator])
    if isinstance(estimator, forests):
        return _split_columns(estimator.estimators_)
    boosted = ensemble.GradientBoostingClassifier | ensemble.GradientBoostingRegressor
    if isinstance(estimator, boosted) and estimator.init is None:
        return _split_columns(estimator.estimators_.ravel())
    histogram = ensemble.HistGradientBoostingClassifier | ensemble.HistGradientBoostingRegressor
    if isinstance(estimator, histogram):
        nodes = [t.nodes for iteration in estimator._predictors for t in iteration]
        return np.unique(np.concatenate([n["feature_idx"][n["is_leaf"] == 0] for n in nodes]))
    if type(estimator).__module__.startswith("sklearn.linear_model.") and hasattr(
        estimator, "coef_"
    ):
        return np.flatnonzero(np.atleast_2d(estimator.coef_).any(axis=0))
    return None


def _split_columns(trees: Sequence[Any]) -> NDArray[np.int64]:
    features = np.unique(np.concatenate([tree.tree_.feature for tree in trees]))
    return np.asarray(features[features >= 0])  # a leaf has -2
