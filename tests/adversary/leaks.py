"""Takes each mend of a leak out of a copy of the code and runs its test, which must fail, as `mends` does.

    python -m tests.adversary.leaks                      # all of them: ten minutes
    python -m tests.adversary.leaks --only 4 --only 7    # those of some leaks

Leaks have the numbers of the table "What once leaked" in fedlearn/privacy/README.md.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tests.adversary.mends import A_FEDERATION, Mend, needed

APP, LEDGER, PURSE = "unit/client/test_app.py", "unit/privacy/test_ledger.py", "unit/client/test_ledger.py"
ACCOUNT, SPENDING, RELAY = (
    f"unit/{name}.py" for name in ("privacy/test_accountant", "server/test_spending", "trees/numbers/test_relay")
)
NUMBERS, CLASSES = (f"unit/trees/{name}.py" for name in ("numbers/test_regression", "classes/test_classification"))
NETWORK = "end_to_end/test_ledger_on_a_network.py::test_a_run_submitted_again_or_by_a_hostile_server_costs_nothing_more"
HOSTILE = f"{PURSE}::test_what_a_hostile_server_asks_is_refused_by_a_word_and_costs_nothing"

CELLS = "unit/trees/test_hostile_cells.py"
UNREADABLE = "    except Exception as error:\n        raise _withheld(DATA_UNREADABLE, error) from None"
KNOWN = "            if known is not None:\n                return known\n"
ABANDONED = '            partition, said = event.get("partition"), event.get(loss, most)\n'
FORGETS = '            if event["event"] == "abandoned":\n                spent.clear()\n'
REQUIRES = 'require(NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD, by="a private tree")'

LEAKS = (
    Mend(
        "1", "client/app.py",
        "    if is_private(config):\n        raise Withheld(NOT_MEASURED)\n", "",
        f"{APP}::test_a_node_of_a_private_model_measures_nothing_whoever_asks",
    ),
    Mend(
        "1", "client/ledger.py",
        "        return self._ledger.once(booking, answer, budget=self.budget)", "        return answer()",
        f"{PURSE}::test_under_flowers_own_loop_with_evaluation_the_ledgers_hold_what_was_seen",
    ),
    Mend(
        "2", "client/discretion.py",
        UNREADABLE, "    except LookupError as error:\n        raise _withheld(DATA_UNREADABLE, error) from None",
        f"{APP}::test_no_cell_leaves_a_private_node_in_an_error",
    ),
    Mend(
        "2", "client/discretion.py",
        '    if not (context.node_config.get("own-data") or is_private(config)):', "    if not is_private(config):",
        f"{APP}::test_no_cell_leaves_a_node_with_own_data_whatever_it_trains",
    ),
    Mend(
        "3", "fedlearn/privacy/ledger.py",
        " and in_all <= self._most * (1 + SLACK)", "",
        f"{LEDGER}::test_what_is_spent_in_all_is_counted_over_all_runs",
    ),
    Mend(
        "3", "client/ledger.py",
        'MATTERS = {"clients",', 'MATTERS = {"out", "clients",',
        f"{PURSE}::test_a_question_that_comes_again_gets_the_same_bytes_at_no_cost",
    ),
    Mend(
        "3", "client/policy.py",
        'if privacy.noise == "seeded" and not policy.seeded_noise:', "if policy is None:", HOSTILE,
    ),
    Mend(
        "3", "client/policy.py",
        "if privacy.public_sizes and not policy.public_sizes:", "if policy is None:", HOSTILE,
    ),
    Mend(
        "3", "client/policy.py",
        "loss.epsilon > min(policy.most_of_a_run, policy.largest_epsilon)", "loss.epsilon < 0", HOSTILE,
    ),
    Mend("3", "fedlearn/privacy/ledger.py", KNOWN, "", NETWORK, A_FEDERATION),
    Mend(
        "4", "fedlearn/trees/numbers/relay.py",
        "            _check_received(self.ensemble, training.domain)", "            pass",
        f"{RELAY}::test_an_ensemble_that_no_relay_has_made_is_refused_before_anything_is_spent",
    ),
    Mend(
        "4", "fedlearn/trees/numbers/histograms.py",
        "if not ((unit_target >= 0) & (unit_target <= 1)).all():", "if unit_target is None:",
        f"{RELAY}::test_no_record_weighs_more_than_one",
    ),
    Mend(
        "5", "server/spending.py",
        ABANDONED, FORGETS + ABANDONED,
        f"{SPENDING}::test_a_report_counts_though_its_round_was_abandoned_and_only_once_for_its_node",
    ),
    Mend(
        "5", "server/spending.py",
        ABANDONED, FORGETS + ABANDONED,
        "end_to_end/test_forests.py::test_what_abandoned_attempts_have_published_is_in_the_summary", A_FEDERATION,
    ),
    Mend(
        "6", "fedlearn/trees/numbers/regressor.py",
        f"        accountant.{REQUIRES}\n", "",
        f"{NUMBERS}::test_an_account_that_counts_in_something_else_is_refused",
    ),
    Mend(
        "6", "fedlearn/trees/classes/classifier.py",
        f"        self.accountant.{REQUIRES}\n", "",
        f"{CLASSES}::test_an_account_that_counts_in_something_else_is_refused",
    ),
    Mend(
        "6", "fedlearn/privacy/accountant.py",
        "((self.relation, relation), (self.unit, unit))", "((self.relation, relation),)",
        f"{ACCOUNT}::test_what_counts_in_something_else_is_refused",
    ),
    Mend(
        "7", "fedlearn/privacy/accountant.py",
        "def __reduce__(self)", "def _reduce(self)",
        f"{ACCOUNT}::test_an_account_does_not_leave_its_process",
    ),
    Mend(
        "7", "fedlearn/privacy/accountant.py",
        "def __copy__(self)", "def _copy(self)", f"{ACCOUNT}::test_a_copy_spends_from_the_same_budget",
    ),
    Mend(
        "8", "fedlearn/privacy/accountant.py",
        "if self.relation is NeighboringRelation.REPLACE and not fixed_parts:", "if self.relation is None:",
        f"{ACCOUNT}::test_parts_that_a_replaced_record_can_leave_are_refused",
    ),
    Mend(
        "9", "fedlearn/privacy/budget.py",
        "return loss.under(NeighboringRelation.REPLACE) if settings.public_sizes else loss", "return loss",
        f"{SPENDING}::test_what_a_run_may_cost_says_in_which_relation",
    ),
    Mend(
        "9", "fedlearn/privacy/budget.py",
        "return loss.under(NeighboringRelation.REPLACE) if settings.public_sizes else loss", "return loss",
        "contracts/test_tree_models.py::test_public_sizes_are_reported",
    ),
    Mend(
        "9", "fedlearn/privacy/ledger.py",
        "line.is_secure, (line,)).under(common)", "line.is_secure, (line,))",
        f"{LEDGER}::test_where_sizes_are_known_all_losses_count_as_of_replaced_records",
    ),
    Mend(
        "10", "fedlearn/trees/numbers/regressor.py",
        "kept = ~np.isnan(target) if given is None", "kept = np.ones(len(target), bool) if given is None",
        f"{NUMBERS}::test_no_record_can_make_a_fit_fail",
    ),
    Mend(
        "10", "fedlearn/trees/classes/classifier.py",
        "        kept = labels >= 0\n", "        kept = labels >= -1\n",
        f"{CLASSES}::test_a_row_whose_label_is_not_declared_is_left_out",
    ),
    Mend(
        "10", "fedlearn/trees/classes/classifier.py",
        "        if self.classes is None:\n            classes, labels =",
        "        if True:\n            classes, labels =",
        f"{CLASSES}::test_no_record_can_make_a_fit_fail",
    ),
    Mend(
        "10", "client/app.py",
        "    elif not len(examples_of(context)):", "    if not len(examples_of(context)):",
        f"{APP}::test_a_private_node_without_examples_does_as_one_with_examples",
    ),
    Mend(
        "23", "fedlearn/trees/columns.py",
        "    except Exception:  # it cannot be compared",
        "    except (TypeError, ValueError):  # it cannot be compared",
        f"{CELLS}::test_a_cell_that_is_nothing_counts_as_missing",
    ),
    Mend(
        "23", "fedlearn/trees/columns.py",
        "np.where(whole.imag == 0, whole.real, np.nan)", "values",
        f"{CELLS}::test_one_complex_number_changes_no_other_record",
    ),
    Mend(
        "24", "fedlearn/privacy/exact.py",
        "if (beyond := np.isneginf(utilities - top) & np.isfinite(utilities)).any():", "if (beyond := np.zeros(1, bool)).any():",
        "unit/privacy/test_exact.py::test_utilities_that_are_further_apart_than_any_float_are_chosen_as_often_as_they_must",
    ),
)  # fmt: skip
"""In the order of the table."""


def main(only: Annotated[list[str] | None, typer.Option(help="Only those of this leak.")] = None) -> None:
    """Take out the mends, one after another; exit code 1 if a test does not need its mend."""
    raise SystemExit(0 if needed([mend for mend in LEAKS if not only or mend.fault in only]) else 1)


if __name__ == "__main__":
    typer.run(main)
