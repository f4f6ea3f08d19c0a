"""Pipelines of scikit-learn, and boosted trees, through skl2onnx and onnxmltools."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from bench.field.catalogue import words
from bench.field.specimen import Feeds, Made, NotExported

ROWS = (1, 50, 7)  # of the cases; a single row is what a service sees
OPSET = {"": 17, "ai.onnx.ml": 3}
WORDS = words("""stone wax picture onyx layer colour engraver raised pressed seal ring gem cameo line cut deep red
white dark light old new small large fine""")


def _numbers(rows: int, columns: int = 12, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


def _target(x: np.ndarray, classes: int = 3) -> np.ndarray:
    score = x[:, 0] + 0.5 * x[:, 1] * x[:, 2] - x[:, 3]
    return np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))


def _texts(rows: int, seed: int = 7) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.array([" ".join(rng.choice(WORDS, rng.integers(3, 12))) for _ in range(rows)], dtype=object)


def _column_cases(dtype: Any = np.float32) -> list[Feeds]:
    return [{"X": _numbers(rows, seed=20 + rows).astype(dtype)} for rows in ROWS]


def _estimators() -> dict[str, Callable[[], Any]]:
    """All estimators over twelve columns of numbers, by name."""
    from sklearn import (
        cluster,
        cross_decomposition,
        decomposition,
        discriminant_analysis,
        ensemble,
        feature_selection,
        gaussian_process,
        linear_model,
        mixture,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )

    layers = {"hidden_layer_sizes": (32, 16), "max_iter": 30, "random_state": 0}
    scaled = lambda *steps: pipeline.make_pipeline(preprocessing.StandardScaler(), *steps)  # noqa: E731
    return {
        "logistic": lambda: scaled(linear_model.LogisticRegression()),
        "ridge": lambda: scaled(linear_model.Ridge()),
        "sgd": lambda: scaled(linear_model.SGDClassifier(loss="log_loss", random_state=0)),
        "svc": lambda: scaled(svm.SVC(probability=True, random_state=0)),
        "svr": lambda: scaled(svm.SVR()),
        "linear-svc": lambda: scaled(svm.LinearSVC(random_state=0)),
        "tree": lambda: tree.DecisionTreeClassifier(max_depth=6, random_state=0),
        "forest": lambda: ensemble.RandomForestClassifier(50, max_depth=8, random_state=0),
        "forest-regressor": lambda: ensemble.RandomForestRegressor(100, max_depth=8, random_state=0),
        "extra-trees": lambda: ensemble.ExtraTreesClassifier(40, max_depth=8, random_state=0),
        "gradient": lambda: ensemble.GradientBoostingClassifier(n_estimators=30, random_state=0),
        "gradient-regressor": lambda: ensemble.GradientBoostingRegressor(n_estimators=50, random_state=0),
        "histogram": lambda: ensemble.HistGradientBoostingClassifier(max_iter=20, random_state=0),
        "adaboost": lambda: ensemble.AdaBoostClassifier(n_estimators=10, random_state=0),
        "bagging": lambda: ensemble.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=4), 5, random_state=0),
        "voting": lambda: ensemble.VotingClassifier([("l", linear_model.LogisticRegression()),
                                                     ("t", tree.DecisionTreeClassifier(max_depth=4))], voting="soft",
                                                    flatten_transform=False),
        "stacking": lambda: ensemble.StackingClassifier([("l", linear_model.LogisticRegression()),
                                                         ("t", tree.DecisionTreeClassifier(max_depth=4))], cv=2),
        "isolation": lambda: ensemble.IsolationForest(n_estimators=20, random_state=0),
        "neighbours": lambda: neighbors.KNeighborsClassifier(5),
        "neighbours-regressor": lambda: neighbors.KNeighborsRegressor(5),
        "bayes": lambda: naive_bayes.GaussianNB(),
        "perceptron": lambda: scaled(neural_network.MLPClassifier(**layers)),
        "perceptron-regressor": lambda: scaled(neural_network.MLPRegressor(**layers)),
        "pca": lambda: scaled(decomposition.PCA(4), linear_model.LogisticRegression()),
        "kmeans": lambda: scaled(cluster.KMeans(4, n_init=1, random_state=0)),
        "mixture": lambda: mixture.GaussianMixture(3, random_state=0),
        "discriminant": lambda: discriminant_analysis.LinearDiscriminantAnalysis(),
        "quadratic": lambda: discriminant_analysis.QuadraticDiscriminantAnalysis(),
        "polynomial": lambda: pipeline.make_pipeline(preprocessing.PolynomialFeatures(2), linear_model.Ridge()),
        "power": lambda: pipeline.make_pipeline(preprocessing.PowerTransformer(), linear_model.Lasso(0.01)),
        "bins": lambda: pipeline.make_pipeline(preprocessing.KBinsDiscretizer(4, encode="onehot-dense"),
                                               linear_model.LogisticRegression()),
        "robust": lambda: pipeline.make_pipeline(preprocessing.RobustScaler(),
                                                 feature_selection.SelectKBest(k=5),
                                                 linear_model.LogisticRegression()),
        "gaussian-process": lambda: gaussian_process.GaussianProcessRegressor(alpha=1e-2),
        "partial-squares": lambda: cross_decomposition.PLSRegression(3),
    }  # fmt: skip


def sklearn_pipeline(name: str, output: str = "map", dtype: str = "float32") -> Made:
    """An estimator over numbers; `output` is how probabilities come: as maps, as skl2onnx likes it, or as arrays."""
    from skl2onnx import to_onnx

    x = _numbers(300)
    y = _target(x)
    estimator = _estimators()[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(x, y)
        options = {"zipmap": False} if output == "array" else {}
        example = x[:1].astype(dtype)
        try:
            model = to_onnx(estimator, example, options={id(estimator): options} if options else None,
                            target_opset=OPSET)  # fmt: skip
        except Exception as error:  # a converter that lags behind scikit-learn
            raise NotExported(f"{type(error).__name__}: {str(error)[:300]}") from error
    return Made(model, _column_cases(np.dtype(dtype)))


def string_labels(output: str = "map") -> Made:
    """A classifier whose classes are words."""
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestClassifier

    x = _numbers(300)
    y = np.array(["low", "middle", "high"])[_target(x)]
    model = RandomForestClassifier(20, max_depth=6, random_state=0).fit(x, y)
    options = {"zipmap": False} if output == "array" else None
    return Made(to_onnx(model, x[:1], options={id(model): options} if options else None, target_opset=OPSET),
                _column_cases())  # fmt: skip


def columns() -> Made:
    """A table of numbers and words, imputed, scaled and encoded, into a classifier: each column its own input."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    pandas = _pandas()
    names = ["age", "fare"], ["sex", "port"]
    table = pandas.DataFrame(_table(300))
    numeric = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    encode = OneHotEncoder(handle_unknown="ignore")
    pipe = make_pipeline(ColumnTransformer([("n", numeric, names[0]), ("c", encode, names[1])]),
                         GradientBoostingClassifier(n_estimators=20, random_state=0))  # fmt: skip
    pipe.fit(table, (table["fare"].fillna(0) > 0.1).astype(int))
    types = [(n, FloatTensorType([None, 1])) for n in names[0]] + [(n, StringTensorType([None, 1])) for n in names[1]]
    model = convert_sklearn(pipe, initial_types=types, target_opset=OPSET)
    cases = [{n: np.asarray(v).reshape(-1, 1) for n, v in _table(rows).items()} for rows in ROWS]
    return Made(model, cases)


def _pandas() -> Any:
    import pandas

    return pandas


def _table(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    age = rng.uniform(1, 80, rows).astype(np.float32)
    age[rng.uniform(size=rows) < 0.2] = np.nan
    return {"age": age, "fare": rng.standard_normal(rows).astype(np.float32),
            "sex": rng.choice(np.array(["female", "male"], object), rows),
            "port": rng.choice(np.array(["S", "C", "Q", "X"], object), rows)}  # fmt: skip


def encoded_columns(kind: str) -> Made:
    """Words of two columns as numbers, without a table library, into a linear model."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import StringTensorType
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

    encoders = {"one-hot": OneHotEncoder(handle_unknown="ignore"), "ordinal": OrdinalEncoder()}
    rng = np.random.default_rng(7)
    draw = lambda rows: rng.choice(np.array(WORDS[:8], object), (rows, 2))  # noqa: E731
    x = draw(200)
    pipe = make_pipeline(encoders[kind], LogisticRegression()).fit(x, (x[:, 0] < x[:, 1]).astype(int))
    model = convert_sklearn(pipe, initial_types=[("X", StringTensorType([None, 2]))], target_opset=OPSET)
    return Made(model, [{"X": draw(rows)} for rows in ROWS])


def text(kind: str) -> Made:
    """Sentences to a class through words or letters."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import StringTensorType
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    kinds: dict[str, Any] = {
        "tfidf": lambda: make_pipeline(TfidfVectorizer(), LogisticRegression()),
        "bigrams": lambda: make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression()),
        "counts": lambda: make_pipeline(CountVectorizer(), MultinomialNB()),
        "characters": lambda: make_pipeline(CountVectorizer(analyzer="char", ngram_range=(1, 2)), LogisticRegression()),
        "stop-words": lambda: make_pipeline(TfidfVectorizer(stop_words=["old", "new"]), LogisticRegression()),
    }
    train = _texts(200, 1)
    y = np.array(["red" in t for t in train]).astype(int)
    pipe = kinds[kind]().fit(train, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = convert_sklearn(pipe, initial_types=[("text", StringTensorType([None, 1]))], target_opset=OPSET)
    for node in model.graph.node:
        if node.op_type == "StringNormalizer":  # its default, en_US, is not on every machine
            node.attribute.add(name="locale", s=b"C", type=onnx.AttributeProto.STRING)
    return Made(model, [{"text": _texts(rows, rows).reshape(-1, 1)} for rows in ROWS])


def boosted(kind: str) -> Made:
    """LightGBM and XGBoost through onnxmltools."""
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    x = _numbers(400)
    y = _target(x)
    library, task = kind.split("-")
    types = [("X", FloatTensorType([None, 12]))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _fitted(library, task, x, y)
        convert = onnxmltools.convert_lightgbm if library == "lightgbm" else onnxmltools.convert_xgboost
        try:
            proto = convert(model, initial_types=types, target_opset=15)
        except Exception as error:  # a converter that lags behind its library
            raise NotExported(f"{type(error).__name__}: {str(error)[:300]}") from error
    return Made(proto, _column_cases())


def _fitted(library: str, task: str, x: np.ndarray, y: np.ndarray) -> Any:
    if library == "lightgbm":
        import lightgbm

        kinds = {"classifier": lightgbm.LGBMClassifier, "binary": lightgbm.LGBMClassifier,
                 "regressor": lightgbm.LGBMRegressor, "large": lightgbm.LGBMClassifier}  # fmt: skip
        more = {"verbose": -1, "n_jobs": 1}
    else:
        import xgboost

        kinds = {"classifier": xgboost.XGBClassifier, "binary": xgboost.XGBClassifier,
                 "regressor": xgboost.XGBRegressor, "large": xgboost.XGBClassifier}  # fmt: skip
        more = {"n_jobs": 1}
    estimators = 200 if task == "large" else 25
    target = {"binary": (y > 0).astype(int), "regressor": x[:, 0] * x[:, 1] + y}.get(task, y)
    return kinds[task](n_estimators=estimators, max_depth=6, **more).fit(x, target)
