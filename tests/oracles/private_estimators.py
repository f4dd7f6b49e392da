"""What scikit-learn's checks ask of weights and a private estimator must not do, or cannot, by the checks' names."""

WEIGHTS = {
    "check_all_zero_sample_weights_error": "an error would tell of a record",
    "check_sample_weight_equivalence_on_dense_data": (
        "one record of weight 2 draws one part and is rounded once; test_weights.py compares sums"
    ),
}
