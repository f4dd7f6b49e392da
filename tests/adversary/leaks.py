"""Takes each mend of a leak out of a copy of the code and runs its test, which must fail, as `mends` does.

    python -m tests.adversary.leaks                      # all of them: ten minutes
    python -m tests.adversary.leaks --only 4 --only 7    # those of some leaks

Leaks have the numbers of the table "What once leaked" in fedlearn/privacy/README.md.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tests.adversary.mends import A_FEDERATION, SUMS, Mend, needed

APP, LEDGER, BUDGET = "unit/client/test_app.py", "unit/privacy/test_ledger.py", "unit/client/test_ledger.py"
ACCOUNT, SPENDING, RELAY = (
    f"unit/{name}.py" for name in ("privacy/test_accountant", "runs/test_spending", "private_trees/numbers/test_relay")
)
SAID, FILES = "unit/report/test_privacy_loss.py", "unit/runs/test_ledgers.py"
NUMBERS, CLASSES = (
    f"unit/private_trees/{name}.py" for name in ("numbers/test_regression", "classes/test_classification")
)
NETWORK = "end_to_end/test_ledger_on_a_network.py::test_a_run_submitted_again_or_by_a_hostile_server_costs_nothing_more"
DRAWING, TABLE = "unit/data/test_drawing.py", "unit/client/test_own_table.py"
HOSTILE = f"{BUDGET}::test_what_a_hostile_server_asks_is_refused_by_a_word_and_costs_nothing"

WORDS = "adversary/test_words.py"
CELLS = "unit/private_trees/test_hostile_cells.py"
UNREADABLE = "    except Exception as error:\n        raise withheld(request, DATA_UNREADABLE, error) from None"
KNOWN = "            if known is not None:\n                return known\n"
ABANDONED = '            partition, said = event.get("partition"), event.get(loss, most)\n'
FORGETS = '            if event["event"] == "abandoned":\n                spent.clear()\n'
REQUIRES = "    accountant.require(NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD, by=by)\n"

LEAKS = (
    Mend(
        "1", "client/handlers/evaluation_handler.py",
        "        if is_private(request.config):\n            raise Withheld(NOT_MEASURED)\n", "",
        f"{APP}::test_a_private_learner_from_outside_says_what_it_has_spent_and_nothing_else",
    ),
    Mend(
        "1", "client/node_ledger.py",
        "        return self._ledger.once(booking, answer, budget=self.budget, delta=self._delta)",
        "        return answer()",
        f"{BUDGET}::test_under_flowers_own_loop_with_evaluation_the_ledgers_hold_what_was_seen",
    ),
    Mend(
        "2", "client/owner/error_disclosure.py",
        UNREADABLE,
        "    except LookupError as error:\n        raise withheld(request, DATA_UNREADABLE, error) from None",
        f"{APP}::test_no_cell_leaves_a_private_node_in_an_error",
    ),
    Mend(
        "2", "client/owner/error_disclosure.py",
        "    if not (has_owner or is_private(config)):", "    if not is_private(config):",
        f"{APP}::test_no_cell_leaves_a_node_with_own_data_whatever_it_trains",
    ),
    Mend(
        "3", "fedlearn/privacy/ledger.py",
        " and are_within(in_all, most=self._most, delta=self._delta)", "",
        f"{LEDGER}::test_what_is_spent_in_all_is_counted_over_all_runs",
    ),
    Mend(
        "3", "client/node_ledger.py",
        'MATTERS = {"clients",', 'MATTERS = {"out", "clients",',
        f"{BUDGET}::test_a_question_that_comes_again_gets_the_same_bytes_at_no_cost",
    ),
    Mend(
        "3", "client/owner/owner_refusals.py",
        'if privacy.noise == "seeded" and not policy.seeded_noise:', "if policy is None:", HOSTILE,
    ),
    Mend(
        "3", "client/owner/owner_refusals.py",
        "if privacy.public_sizes and not policy.public_sizes:", "if policy is None:", HOSTILE,
    ),
    Mend(
        "3", "client/owner/owner_refusals.py",
        "loss.epsilon > min(policy.most_of_a_run, policy.largest_epsilon)", "loss.epsilon < 0", HOSTILE,
    ),
    Mend("3", "fedlearn/privacy/ledger.py", KNOWN, "", NETWORK, A_FEDERATION),
    Mend(
        "4", "fedlearn/private_trees/numbers/relay_forest.py",
        "            check_received(self.ensemble, training.domain)", "            pass",
        f"{RELAY}::test_an_ensemble_that_no_relay_has_made_is_refused_before_anything_is_spent",
    ),
    Mend(
        "4", "fedlearn/private_trees/numbers/histograms.py",
        "if not ((unit_target >= 0) & (unit_target <= 1)).all():", "if unit_target is None:",
        f"{RELAY}::test_no_record_weighs_more_than_one",
    ),
    Mend(
        "5", "fedlearn/runs/spending.py",
        ABANDONED, FORGETS + ABANDONED,
        f"{SPENDING}::test_a_report_counts_though_its_round_was_abandoned_and_only_once_for_its_node",
    ),
    Mend(
        "5", "fedlearn/runs/spending.py",
        ABANDONED, FORGETS + ABANDONED,
        "end_to_end/test_forests.py::test_what_abandoned_attempts_have_published_is_in_the_summary", A_FEDERATION,
    ),
    Mend(
        "6", "fedlearn/private_trees/accounts.py",
        REQUIRES, "",
        f"{NUMBERS}::test_an_account_that_counts_in_something_else_is_refused",
    ),
    Mend(
        "6", "fedlearn/private_trees/accounts.py",
        REQUIRES, "",
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
        "9", "fedlearn/privacy/bookings.py",
        "line.is_secure, (line,)).under(common)", "line.is_secure, (line,))",
        f"{LEDGER}::test_where_sizes_are_known_all_losses_count_as_of_replaced_records",
    ),
    Mend(
        "10", "fedlearn/private_trees/numbers/regressor.py",
        "kept = ~np.isnan(target) if given is None", "kept = np.ones(len(target), bool) if given is None",
        f"{NUMBERS}::test_no_record_can_make_a_fit_fail",
    ),
    Mend(
        "10", "fedlearn/private_trees/classes/classifier.py",
        "        kept = labels >= 0\n", "        kept = labels >= -1\n",
        f"{CLASSES}::test_a_row_whose_label_is_not_declared_is_left_out",
    ),
    Mend(
        "10", "fedlearn/private_trees/declared_input.py",
        "    if declared is None:\n        check_classification", "    if True:\n        check_classification",
        f"{CLASSES}::test_no_record_can_make_a_fit_fail",
    ),
    Mend(
        "10", "client/handlers/selection_handler.py",
        "return why_not or _why_not_published(request)\n", 
        'return why_not or _why_not_published(request) if len(examples_of(request)) else "none"\n',
        f"{APP}::test_a_private_node_without_examples_does_as_one_with_examples",
    ),
    Mend(
        "11", "fedlearn/data/encoded_tables.py",
        'drawn(rows, seed=SPLIT_SEED, purpose="test split") < share',
        "np.random.default_rng(len(rows)).permutation(len(rows)) < share * len(rows)",
        f"{DRAWING}::test_one_line_less_in_a_file_moves_no_other_between_training_and_test",
    ),
    Mend(
        "11", "fedlearn/data/drawing.py",
        "return 0.0 if _nothing_held_out.get() else share", "return share",
        f"{TABLE}::test_one_row_more_counts_once_and_moves_no_other",
    ),
    Mend(
        "12", "client/examples.py",
        "    if _takes_all_rows(config):\n        count =", "    if not config.data.node_test_share:\n        count =",
        f"{TABLE}::test_all_rows_are_trained_on_whatever_share_the_server_wants_held_out",
    ),
    Mend(
        "12", "fedlearn/data/partitioning.py",
        "if by_record and settings.node_test_share:", "if num_partitions < 0:",
        f"{DRAWING}::test_no_share_of_a_private_node_is_held_out",
    ),
    Mend(
        "13", "fedlearn/data/partitioning.py",
        "if by_record or (dataset.schema is not None and", "if num_partitions < 0 or (not by_record and",
        f"{DRAWING}::test_one_line_less_in_a_file_moves_no_other_between_nodes",
    ),
    Mend(
        "13", "fedlearn/data/by_record.py",
        "QUANTILES, 0, QUANTILES - 1)\n", "QUANTILES, 0, QUANTILES - 1)\n    tenth = train.labels\n",
        f"{DRAWING}::test_tenths_of_a_target_are_those_of_its_declared_bounds",
    ),
    Mend(
        "14", "fedlearn/data/column_files.py",
        "pc.if_else(is_number, cells, None)", "cells",
        f"{TABLE}::test_a_row_that_cannot_be_read_is_told_to_nobody_but_the_owner",
    ),
    Mend(
        "14", "fedlearn/data/column_files.py",
        "line if _cells(line, between) == len(found) else empty", "line",
        f"{TABLE}::test_a_row_that_cannot_be_read_is_told_to_nobody_but_the_owner",
    ),
    Mend(
        "15", "server/planning/run_plan.py",
        "        config = without_exact(config, test_is_public=traits.test_is_public)\n", "",
        f"{SUMS}::test_under_noise_that_protects_nothing_exact_of_private_rows_leaves",
    ),
    Mend(
        "15", "server/planning/run_plan.py",
        'fingerprint = "" if protects and not traits.is_public else traits.fingerprint',
        'fingerprint = "" if protects and not traits.test_is_public else traits.fingerprint',
        f"{SUMS}::test_no_run_that_protects_stores_a_hash_of_its_rows",
    ),
    Mend(
        "15", "fedlearn/runs/spending.py",
        "    return promised(config).is_secure and not test_is_public", "    return False",
        f"{SPENDING}::test_private_test_rows_are_not_measured_under_noise_that_protects",
    ),
    Mend(
        "15", "fedlearn/runs/spending.py",
        "return found + [MEASURED] * (not test_is_public)", "return found",
        f"{SPENDING}::test_what_is_measured_of_test_rows_is_said_beside_an_epsilon",
    ),
    Mend(
        "15", "client/app.py",
        "return NodeTrial((), why_not)", "return NodeTrial((), why_not, dealt_to(dataset, partitions_of(config)))",
        "unit/data/test_dealing.py::test_nodes_of_a_private_model_tell_no_counts",
    ),
    Mend(
        "16", "client/examples.py",
        "return len(training_set(request)) < Policy.of_node",
        "return len(examples_of(request)) < Policy.of_node",
        f"{BUDGET}::test_no_setting_of_a_server_moves_what_the_least_number_of_records_is_compared_with",
    ),
    Mend(
        "16", "client/owner/owner_refusals.py",
        "    if config.data.options and policy.least_records:", "    if policy is None:",
        f"{BUDGET}::test_no_setting_of_a_server_moves_what_the_least_number_of_records_is_compared_with",
    ),
    Mend(
        "17", "client/request.py",
        "return self.context.node_config.get(SIMULATED) is not True",
        'return bool(self.context.node_config.keys() - {"partition-id", "num-partitions", "device", SIMULATED})',
        f"{BUDGET}::test_a_real_node_without_a_ledger_refuses_distributed_noise_too",
    ),
    Mend(
        "17", "fedlearn/engine/node_calls.py",
        "if DEVICE_SETTING in settings else {}", "if DEVICE_SETTING in settings else {SIMULATED: True}",
        "unit/client/test_examples.py::test_only_an_engine_of_simulations_makes_a_node_virtual",
    ),
    Mend(
        "18", "client/node_ledger.py",
        'str(node_config.get("data-name", ""))',
        'str(node_config.get("data-name", "")) + f"-{request.partition_id}"',
        f"{BUDGET}::test_shares_of_one_table_pay_from_one_ledger",
    ),
    Mend(
        "19", "fedlearn/core/metrics.py",
        'return value if loss is None or loss.name != name else f"{value} ({loss.note})"', "return value",
        f"{SAID}::test_the_line_of_a_round_and_the_live_view_say_it",
    ),
    Mend(
        "19", "fedlearn/report/comparing.py",
        "        if any(words):\n", "        if not words:\n",
        f"{SAID}::test_two_runs_are_compared_with_what_each_epsilon_counts_in",
    ),
    Mend(
        "19", "fedlearn/report/run_tables.py",
        "if loss else []", "if not loss else []",
        f"{SAID}::test_every_table_with_an_epsilon_has_a_column_for_what_it_counts_in",
    ),
    Mend(
        "19", "fedlearn/runs/published.py",
        "        writer.writerow({**row, **said})\n", "        writer.writerow(row)\n",
        f"{SUMS}::test_a_result_says_whose_noise_protects_wherever_it_says_epsilon",
    ),
    Mend(
        "20", "fedlearn/runs/ledgers.py",
        "if lines_in(lines) > 2 or self._was_counted():", "if lines_in(lines) > 2:",
        f"{FILES}::test_a_ledger_of_which_parts_are_gone_does_not_begin_anew",
    ),
    Mend(
        "20", "fedlearn/runs/ledgers.py",
        "if is_counted or self._was_counted():", "if is_counted:",
        f"{FILES}::test_a_ledger_of_which_parts_are_gone_does_not_begin_anew",
    ),
    Mend(
        "21", "client/owner/owner_refusals.py",
        "config.client.mods or names_code(config):",
        'config.client.mods or ":" in config.data.dataset + config.data.partition:',
        f"{BUDGET}::test_code_that_a_server_names_is_not_even_imported",
    ),
    Mend(
        "21", "client/owner/owner_refusals.py",
        "if isinstance(value, str) and setting not in PLAIN", 'if setting.rpartition(".")[2] in ("name", "codec")',
        f"{BUDGET}::test_every_setting_that_is_no_plain_text_is_taken_for_one_that_may_name_code",
    ),
    Mend(
        "21", "client/owner/owner_refusals.py",
        '("" if asks_ours(request) else CODE_NOT_ALLOWED)', '""',
        f"{BUDGET}::test_a_message_names_no_code_either",
    ),
    Mend(
        "22", "fedlearn/privacy/ledger.py",
        "len(bookings(entries)) < self._most_questions and not", "not",
        f"{BUDGET}::test_a_server_asks_no_more_questions_than_the_owner_allows_however_little_they_cost",
    ),
    Mend(
        "22", "fedlearn/runs/ledgers.py",
        ">= FULL\n", ">= 10**9 * FULL\n",
        f"{FILES}::test_answers_that_fill_the_disk_are_not_kept_without_end",
    ),
    Mend(
        "23", "fedlearn/private_trees/table_cells.py",
        "    except Exception as error:\n        if isinstance(error, OverflowError)",
        "    except (TypeError, OverflowError) as error:\n        if isinstance(error, OverflowError)",
        f"{CELLS}::test_a_cell_that_is_nothing_counts_as_missing",
    ),
    Mend(
        "23", "fedlearn/private_trees/table_cells.py",
        "np.where(whole.imag == 0, whole.real, np.nan)", "values",
        f"{CELLS}::test_one_complex_number_changes_no_other_record",
    ),
    Mend(
        "24", "fedlearn/privacy/exact.py",
        "        if beyond.any():\n", "        if not beyond.size:\n",
        "unit/privacy/test_exact.py::test_utilities_that_are_further_apart_than_any_float_are_chosen_as_often_as_they_must",
    ),
    Mend(
        "25", "client/owner/owner_refusals.py",
        "    if reason in REFUSALS:\n        return reason\n", "    if reason:\n        return reason\n",
        f"{WORDS}::test_nodes_that_are_not_ready_cannot_be_told_apart_by_any_question",
    ),
    Mend(
        "25", "client/owner/owner_refusals.py",
        "if is_evaluation and", "if False and",
        f"{WORDS}::test_nodes_that_are_not_ready_cannot_be_told_apart_by_any_question",
    ),
    Mend(
        "25", "client/owner/error_disclosure.py",
        "return word_for(reason) if request.is_real else reason", "return reason",
        f"{WORDS}::test_nodes_that_are_not_ready_cannot_be_told_apart_by_any_question",
    ),
    Mend(
        "25", "client/owner/owner_refusals.py",
        "    except RuntimeError:  # there", "    except LookupError:  # there",
        f"{WORDS}::test_nodes_that_are_not_ready_cannot_be_told_apart_by_any_question",
    ),
    Mend(
        "25", "client/owner/error_disclosure.py",
        "    except Withheld as refusal:\n        raise withheld(request, str(refusal)) from None",
        "    except Withheld:\n        raise",
        f"{WORDS}::test_nodes_that_are_not_ready_cannot_be_told_apart_by_any_question",
    ),
    Mend(
        "25", "client/handlers/selection_handler.py",
        "_why_not(request) or unsent_why_not(request)", "unsent_why_not(request) or _why_not(request)",
        f"{WORDS}::test_nodes_that_are_not_ready_cannot_be_told_apart_by_any_question",
    ),
    Mend(
        "25", "client/app.py",
        "        wait_for_a_whole_second(request)\n", "        pass\n", f"{WORDS}::test_only_not_ready_waits",
    ),
    Mend(
        "25", "client/handlers/selection_handler.py",
        "    word = said_of(request, why_not)\n", "    word = why_not\n",
        f"{WORDS}::test_nodes_that_are_not_ready_cannot_be_told_apart_by_any_question",
    ),
)  # fmt: skip
"""In the order of the table."""


def main(only: Annotated[list[str] | None, typer.Option(help="Only those of this leak.")] = None) -> None:
    """Take out the mends, one after another; exit code 1 if a test does not need its mend."""
    raise SystemExit(0 if needed([mend for mend in LEAKS if not only or mend.fault in only]) else 1)


if __name__ == "__main__":
    typer.run(main)
