"""Checks of scikit-learn on weights that a private estimator must not or cannot pass, by name."""

WEIGHTS = {
    "check_all_zero_sample_weights_error": "an error would tell of a record",
    "check_sample_weight_equivalence_on_dense_data": (
        "one record of weight 2 draws one part and is rounded once; test_weights.py compares sums"
    ),
}
