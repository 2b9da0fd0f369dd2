"""
A step of a scikit-learn pipeline
=================================

`chaffinch.FeatureSelector` is a transformer. In a pipeline it selects again on the rows of each
fold, so that cross-validation stays honest, and a grid search may choose its settings.
"""

from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import chaffinch

X, y = load_wine(return_X_y=True, as_frame=True)
selector = chaffinch.FeatureSelector("gbmo", model="linear")
pipeline = make_pipeline(selector, StandardScaler(), KNeighborsClassifier())
print("accuracy:", cross_val_score(pipeline, X, y, cv=3).round(3))

# %%
# Let a grid search choose the number of features for the model at the end of the pipeline:

grid = {"featureselector__n_features": [2, 4, 8]}
search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
print(search.best_params_, round(search.best_score_, 3))

# %%

import pandas as pd

scores = pd.DataFrame(search.cv_results_).set_index("param_featureselector__n_features")
axes = scores["mean_test_score"].plot(style="o-", figsize=(6, 3), color="tab:green")
axes.set(xlabel="number of features", ylabel="accuracy")
axes.figure.tight_layout()

# %%
# The fitted step has the names, and all else that `chaffinch.select` returns.

fitted = search.best_estimator_.named_steps["featureselector"]
print(fitted.get_feature_names_out())
print(fitted.result_.verdict)
