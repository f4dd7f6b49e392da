"""Takes each mend out of a copy of the code and runs its test, which must fail: that is what the table of faults says.

    python -m tests.adversary.mends                        # all of them: a quarter of an hour
    python -m tests.adversary.mends --only B1 --only C2    # those of some faults

The code in which the faults were found lacks most of what the tests call, so the tests cannot run there. Here each is
shown today's code without its mend, one at a time. Exit code 1 if a test passes without it, or fails with it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).parents[2]
CODE = ("fedlearn", "server", "client", "strategies", "experiments", "tests", "docs")
FILES = ("pyproject.toml", "docker-compose.yml", "README.md", "LICENSE")
LONGEST = 120  # seconds that most tests may take; without its mend one may hang
A_FEDERATION = 900  # seconds for a test that starts one
LAST = 2000  # characters of what pytest says that are shown
PASSED, FAILED = 0, 1  # exit codes of pytest; others say that it could not run the test


@dataclass(frozen=True, slots=True)
class Mend:
    """One mend.

    Parameters
    ----------
    fault
        As in the table.
    file
        Where it stands.
    text, without
        What stands there, once; and what does where it is taken out.
    test
        Fails without it: ``"test_file.py::test_name"``, in tests.
    seconds
        How long the test may take.
    """

    fault: str
    file: str
    text: str
    without: str
    test: str
    seconds: float = LONGEST


class Ended(StrEnum):
    """How a test has ended."""

    PASSED = "passes"
    SKIPPED = "is skipped"
    FAILED = "fails"
    HANGS = "hangs"
    BROKEN = "cannot run"


REPLIES, NODES, LIARS = (f"adversary/test_{name}.py" for name in ("replies", "nodes", "liars"))
AXES, NOTES = "unit/models/test_axes.py", "unit/models/torch/test_notes.py"
STORED, PAGES, COUNTS = (f"adversary/test_{name}.py" for name in ("stored", "pages", "counts"))
MANY_RUNS = "end_to_end/test_many_runs.py"
SUMS = "end_to_end/test_sums.py"
ADMISSION, POOL = "unit/engine/deployment/test_admission.py", "unit/engine/test_pool.py"

MENDS = (
    Mend(
        "A1", "fedlearn/flower/replies.py",
        "except Exception as error:  # any error in reading", "except LookupError as error:  # any error in reading",
        f"{REPLIES}::test_A1_a_reply_that_cannot_be_read_fails_alone",
    ),
    Mend(
        "A2", "fedlearn/flower/replies.py",
        "wait(coming.values(), timeout=PATIENCE)", "wait(coming.values())",
        f"{REPLIES}::test_A2_a_reply_whose_parts_never_come_keeps_nobody_waiting",
    ),
    Mend(
        "A3", "fedlearn/engine/deployment/admission.py",
        "        if status:\n            await Plain", "        if status == 503:\n            await Plain",
        f"{ADMISSION}::test_of_what_nobody_has_signed_who_was_let_in_no_body_is_read",
    ),
    Mend(
        "A4", "server/exchange/node_directory.py",
        "known = self._partitions.setdefault(node_id, partition_id)",
        "known = self._partitions[node_id] = partition_id",
        f"{NODES}::test_A4_the_first_word_of_a_node_stands",
    ),
    Mend(
        "A4", "server/exchange/node_directory.py",
        "if registered != partition_id:", "if registered < 0:",
        f"{NODES}::test_A4_a_node_that_names_anothers_partition_first_keeps_nobody_out",
    ),
    Mend(
        "A4", "server/exchange/node_directory.py",
        "if not 0 <= partition_id < self._clients:", "if partition_id < 0:",
        f"{NODES}::test_A4_a_partition_that_the_run_does_not_have_is_nobodys",
    ),
    Mend(
        "A5", "fedlearn/core/errors.py",
        "return shown if len(shown) <= LONGEST_SAID else", "return shown or",
        f"{NODES}::test_A5_A10_a_reason_is_one_short_line_without_escapes",
    ),
    Mend(
        "A10", "fedlearn/core/errors.py",
        "shown = printable(line[: LONGEST_SAID + 1])", "shown = line[: LONGEST_SAID + 1]",
        f"{NODES}::test_A5_A10_a_reason_is_one_short_line_without_escapes",
    ),
    Mend(
        "A6", "fedlearn/flower/records.py",
        "is_short = len(name) + len(dtype) + len(shape) + len(stype) <= LONGEST_KEPT", "is_short = True",
        f"{NODES}::test_A6_what_nodes_call_their_arrays_is_not_remembered",
    ),
    Mend(
        "A7", "server/gate/gate.py",
        "            self._check_size(reply.content)\n", "",
        f"{NODES}::test_A7_a_report_of_many_entries_is_refused_before_it_is_read",
    ),
    Mend(
        "A8", "fedlearn/engine/deployment/proxy.py",
        'if ($$request_uri !~ "^/v1/fleet/[a-z-]{1,40}$$") { return 403; }', "",
        "end_to_end/test_hostile.py::test_a_few_hostile_requests_of_each_kind_change_nothing", A_FEDERATION,
    ),
    Mend(
        "A9", "fedlearn/engine/deployment/admission.py",
        "if this in self._used or len(self._used)", "if len(self._used)",
        f"{ADMISSION}::test_of_many_threads_one_uses_a_time",
    ),
    Mend(
        "A11", "tests/compose/plain.py",
        'return "TERM" if "nginx" in words or "proxy" in words else "KILL"', 'return "KILL"',
        "compose/test_harness.py::test_a_proxy_leaves_no_process_behind_when_the_harness_is_killed",
    ),
    Mend(
        "B1", "server/gate/gate.py",
        "if self._beside is not None and (why", "if self._beside is None and (why",
        f"{LIARS}::test_B1_a_liar_is_refused_by_name_and_the_model_is_that_of_the_others",
    ),
    Mend(
        "B1", "server/committing.py",
        "found = too_far(reports, run.config.gate)", "found: dict[int, str] = {}",
        f"{LIARS}::test_B1_a_liar_is_refused_by_name_and_the_model_is_that_of_the_others",
    ),
    Mend(
        "B2", "server/committing.py",
        "carried = [*step.state.values(), *run.strategy.memory().values()]", "carried = [*step.state.values()]",
        f"{LIARS}::test_B2_infinity_in_what_a_strategy_carries_on_is_never_committed",
    ),
    Mend(
        "B3", "server/gate/gate.py",
        "sound = metric.in_range(float(value))", "sound: float | None = float(value)",
        f"{LIARS}::test_B3_a_metric_that_cannot_be_is_not_counted_and_its_node_is_named",
    ),
    Mend(
        "B3", "server/phases/evaluation_answers.py",
        "or metric.in_range(value) is None:", "or value is None:",
        f"{LIARS}::test_B3_a_node_that_lies_about_its_evaluation_is_not_counted_and_is_named",
    ),
    Mend(
        "B4", "strategies/whole_numbers.py",
        "return np.where(values > high, ends.max, whole).astype(ends.dtype)",
        "return np.rint(values).astype(ends.dtype)",
        f"{NODES}::test_B4_integers_at_the_end_of_their_range_stay_there",
    ),
    Mend(
        "B5", "fedlearn/models/sums.py",
        'check_size(arrays["sums"], one)', 'check_size(arrays["sums"], LARGEST)',
        f"{SUMS}::test_B5_a_liar_is_refused_and_the_sums_are_those_of_the_others",
    ),
    Mend(
        "B5", "fedlearn/models/sums.py",
        'arrays["sums"]).sum())) > norm', 'arrays["sums"]).sum())) > LARGEST * len(arrays["sums"])',
        f"{SUMS}::test_B5_a_liar_is_refused_and_the_sums_are_those_of_the_others",
    ),
    Mend(
        "C1", "fedlearn/runs/checkpoint.py",
        "        manifest.check_settings(self._settings, self.folder)\n", "",
        f"{STORED}::test_c1_setting_that_was_edited_by_hand_is_named",
    ),
    Mend(
        "C1", "fedlearn/runs/checkpoint.py",
        "        manifest.check_data(self._data, self.folder)\n", "",
        f"{STORED}::test_c1_other_data_than_the_run_was_begun_with_are_named",
    ),
    Mend(
        "C2", "fedlearn/runs/manifest.py",
        "if held is None or hashlib.sha256(held[2]).hexdigest().encode() != held[1]:", "if held is None:",
        f"{STORED}::test_c2_value_in_the_checkpoint_that_was_changed_is_named",
    ),
    Mend(
        "C2", "fedlearn/runs/checkpoint.py",
        "        check_best(self.folder, stored)\n", "",
        f"{STORED}::test_c2_best_state_that_was_changed_is_named",
    ),
    Mend(
        "C2", "fedlearn/runs/checkpoint.py",
        "self._appended.sound(manifest.appended, ", "self._appended.sound({}, ",
        f"{STORED}::test_c2_row_of_an_earlier_round_that_was_changed_is_named_once",
    ),
    Mend(
        "C3", "fedlearn/data/cache.py",
        "            compare(entry)\n", "",
        f"{STORED}::test_c3_spoiled_cache_is_never_used",
    ),
    Mend(
        "C4", "fedlearn/runs/files.py",
        "    except OSError as error:\n        raise RunFailed(",
        "    except NotImplementedError as error:\n        raise RunFailed(",
        f"{STORED}::test_c4_full_disk_is_one_line_and_what_was_stored_stays_sound",
    ),
    Mend(
        "C4", "fedlearn/runs/log.py",
        "if path.is_symlink() or (path.exists() and not path.is_file()):  # a pipe", "if not path.name:  # a pipe",
        f"{STORED}::test_c4_log_that_is_no_file_is_named_and_never_waited_for",
    ),
    Mend(
        "C4", "fedlearn/runs/safe_reading.py",
        "os.open(path, flags | os.O_NOFOLLOW |", "os.open(path, flags |",
        f"{STORED}::test_c4_table_of_nodes_is_not_appended_to_through_a_link",
    ),
    Mend(
        "C5", "fedlearn/runs/folder.py",
        "folder.mkdir(parents=True, exist_ok=False)", "folder.mkdir(parents=True, exist_ok=True)",
        f"{STORED}::test_c5_runs_begun_in_the_same_second_get_folders_of_their_own",
    ),
    Mend(
        "C6", "fedlearn/runs/checkpoint.py",
        "        check_not_lost(self.folder)\n", "",
        f"{STORED}::test_c6_run_without_its_checkpoint_is_not_begun_again_unasked",
    ),
    Mend(
        "C6", "fedlearn/runs/published.py",
        "if new and is_ours:", "if not new and is_ours:",
        f"{STORED}::test_c6_a_commit_after_many_rounds_writes_what_the_first_did",
    ),
    Mend(
        "C7", "server/phases/reporting.py",
        "        if came:\n            run.keep_paid()\n", "",
        f"{STORED}::test_c7_a_private_run_that_is_killed_has_paid_for_every_answer_that_was_written_down",
    ),
    Mend(
        "C8", "client/answer.py",
        "_owed_before(request) if is_private(request.config) else memory", "memory",
        f"{STORED}::test_c8_a_private_run_that_is_killed_and_owes_a_residual_comes_to_the_same_bytes",
    ),
    Mend(
        "D1", "fedlearn/engine/embedded/stuck_nodes.py",
        "            self._pool.submit(_rest_of(task, place))\n", "",
        "end_to_end/test_failing_nodes.py::test_a_node_that_hangs_costs_itself_only",
    ),
    Mend(
        "D2", "fedlearn/engine/embedded/embedded_grid.py",
        "self._ended(left, patience, each=True)", "self._ended(left, 3600.0, each=True)",
        f"{POOL}::test_a_call_that_hangs_is_made_again_by_another_worker",
    ),
    Mend(
        "D3", "fedlearn/engine/embedded/worker_process.py",
        "        _give_up_after(PATIENCE, self.pipe)\n", "",
        f"{POOL}::test_a_stopped_worker_that_is_sent_more_than_a_pipe_takes_is_replaced",
    ),
    Mend(
        "D4", "server/gate/gate.py",
        "    except Exception as error:  # whatever a client has put there", "    except NotImplementedError as error:",
        f"{NODES}::test_D4_a_number_that_cannot_be_sent_is_its_nodes_failure",
    ),
    Mend(
        "D5", "fedlearn/engine/embedded/engine.py",
        "return min(config.engine.workers or cores, max(cores, blocks))", "return config.engine.workers or cores",
        "unit/engine/test_engine.py::test_a_run_gets_no_more_workers_than_have_something_to_do",
    ),
    Mend(
        "D6", "fedlearn/private_trees/node_table.py",
        "for _ in range(max_depth + 1):", "for _ in range(10 * max_depth**3):",
        "adversary/test_trees.py::test_D6_trees_made_to_be_slow_are_refused_at_once",
    ),
    Mend(
        "E1", "server/phases/selection.py",
        '        run.notices.send({node.node_id: "cancelled" for node in ready}, at)\n', "",
        "unit/server/test_rounds.py::test_a_selection_that_is_cancelled_tells_all_that_had_said_ready",
    ),
    Mend(
        "E2", "server/planning/compatibility.py",
        "if 0 < config.rounds.invited < needed:", "if needed < 0:",
        f"{NODES}::test_E2_fewer_invited_than_must_be_ready_is_refused_before_the_start",
    ),
    Mend(
        "E3", "server/phases/evaluation_answers.py",
        'range(len(messages)), book="down")', 'range(len(messages)), book="")',
        f"{COUNTS}::test_E3_every_byte_is_counted_those_of_evaluations_on_nodes_too",
    ),
    Mend(
        "E3", "server/phases/reporting.py",
        "                exchange.traffic.add_reports([verdict.report.bytes_up])\n", "",
        f"{COUNTS}::test_E3_a_second_report_is_refused_and_its_bytes_are_counted",
    ),
    Mend(
        "E3", "server/phases/evaluation.py",
        "if message.metadata.dst_node_id in answered]", "if message.metadata.dst_node_id]",
        f"{COUNTS}::test_E3_a_node_that_hangs_or_fails_is_not_asked_to_evaluate",
    ),
    Mend(
        "F1", "fedlearn/report/number_rows.py",
        "    if not abs(value) < LARGEST:  # nor is NaN\n        return None\n", "",
        f"{PAGES}::test_f1_number_in_the_table_costs_no_page",
    ),
    Mend(
        "F1", "fedlearn/runs/safe_reading.py",
        "    if not stat.S_ISREG(os.fstat(descriptor).st_mode):", "    if descriptor < 0:",
        f"{PAGES}::test_f1_only_regular_files_are_read",
    ),
    Mend(
        "F1", "fedlearn/runs/log.py",
        "if new and self._wasted > MOST_WASTED:", "if new and self._wasted < 0:",
        f"{PAGES}::test_f1_log_of_which_hardly_anything_is_events_is_given_up",
    ),
    Mend(
        "F2", "fedlearn/report/serving.py",
        "        for folder in folders.values():\n            self._logs",
        "        self._seen = state\n        for folder in folders.values():\n            self._logs",
        f"{PAGES}::test_f2_look_that_failed_is_tried_again",
    ),
    Mend(
        "F3", "fedlearn/config/load.py",
        "    except (ValueError, RecursionError):  # bare words", "    except tomllib.TOMLDecodeError:  # bare words",
        "adversary/test_command_lines.py::test_f3_line_is_refused_in_one_line_and_leaves_nothing",
    ),
    Mend(
        "F4", "fedlearn/report/serving.py",
        "return host if port.isdecimal() else header", 'return header.partition(":")[0]',
        f"{PAGES}::test_f4_page_answers_to_the_addresses_that_it_prints_and_no_other",
    ),
    Mend(
        "U1", "fedlearn/core/metric.py",
        "        if self.headline and not self.better:", "        if self.headline is None:",
        "unit/core/test_metrics.py::test_a_headline_must_say_what_is_better",
    ),
    Mend(
        "U2", "server/strategy_rng.py",
        "with seeded_globals(self._seed_for(what, at) if self.are_seeded else None, held)",
        "with seeded_globals(None, held)",
        "contracts/test_foreign_strategies.py::test_same_seed_gives_the_same_bytes",
    ),
    Mend(
        "U3", "fedlearn/report/charts/curves.py",
        "if len(placed) < 2 or max(x for _, x, _ in placed) <= EQUAL * min(x for _, x, _ in placed):",
        "if len(placed) < 2:",
        "unit/report/test_charts.py::test_bytes_that_are_alike_to_one_in_a_hundred_have_bought_nothing",
    ),
    Mend(
        "L1", "fedlearn/api/isolated_call.py",
        "    if not _one_at_a_time.acquire(blocking=False):", "    if _one_at_a_time.acquire(blocking=False) is None:",
        f"{MANY_RUNS}::test_runs_in_threads_have_the_bytes_that_each_has_alone", A_FEDERATION,
    ),
    Mend(
        "L2", "fedlearn/engine/embedded/forkserver.py",
        "        except ChildProcessError:", "        except FileExistsError:",
        f"{MANY_RUNS}::test_runs_in_pools_of_processes_have_the_bytes_that_each_has_alone", A_FEDERATION,
    ),
    Mend(
        "L3", "fedlearn/engine/embedded/engine.py",
        "            grid.close()\n", "            pass\n",
        f"{MANY_RUNS}::test_runs_one_after_another_need_no_more_files", A_FEDERATION,
    ),
    Mend(
        "L4", "fedlearn/engine/embedded/forkserver.py",
        "environment(**ONE_THREAD, **{IMPORTS_PIPE: str(path)}):",
        "environment(**{IMPORTS_PIPE: str(path)}):\n        os.environ.update(ONE_THREAD)",
        f"{MANY_RUNS}::test_a_run_leaves_its_callers_process_as_it_was", A_FEDERATION,
    ),
    Mend(
        "L5", "fedlearn/runs/folder.py",
        "self._found_again(BEFORE_THERE_WAS_ONE | _by_names", "(BEFORE_THERE_WAS_ONE | _by_names",
        f"{MANY_RUNS}::test_a_study_that_was_moved_with_its_data_goes_on",
    ),
    Mend(
        "L5", "fedlearn/models/loaded.py",
        "    if not is_map(config.data.partition):\n        return dataset.fingerprint\n",
        "    return dataset.fingerprint\n",
        f"{MANY_RUNS}::test_other_data_than_the_run_was_begun_with_are_refused",
    ),
    Mend(
        "M1", "fedlearn/data/encoded_tables.py",
        '_say(name, "values", present, strangers,', '_say(name, "values", present, {},',
        "unit/data/test_tables.py::test_categories_that_are_not_declared_are_counted_with_the_most_frequent",
    ),
    Mend(
        "M2", "fedlearn/data/owners.py",
        'return re.sub(r"^([+-]?\\d+)\\.0*$", r"\\1", text.strip())', "return text.strip()",
        "unit/data/test_tables.py::test_a_code_that_went_through_a_float_column_is_the_declared_one",
    ),
    Mend(
        "M2", "fedlearn/data/owners.py",
        'return re.sub(r"^([+-]?\\d+)\\.0*$", r"\\1", text.strip())', "return text",
        "unit/data/test_tables.py::test_blanks_around_names_and_cells_do_not_count",
    ),
    Mend(
        "M3", "fedlearn/data/encoded_tables.py",
        '_say(name, "numbers", present, beyond,', '_say(name, "numbers", present, {},',
        "unit/data/test_tables.py::test_numbers_outside_their_bounds_are_said",
    ),
    Mend(
        "M4", "fedlearn/data/encoded_tables.py",
        "place.get(text, place.get(plain_text(text), np.nan)) for text", "np.nan if plain_text(text) in MISSING else "
        "place.get(text, place.get(plain_text(text), np.nan)) for text",
        "unit/data/test_tables.py::test_a_category_that_reads_like_missing_is_one_where_it_is_declared",
    ),
    Mend(
        "N1", "fedlearn/privacy/budget.py",
        "    except OverflowError:\n        return math.inf\n", "    except LookupError:\n        return math.inf\n",
        "unit/privacy/test_ledger.py::test_a_sum_beyond_the_largest_float_is_more_than_there_is",
    ),
    Mend(
        "N1", "fedlearn/privacy/accountant.py",
        " or (math.isinf(total) and math.isfinite(self.budget))", "",
        "unit/privacy/test_accountant.py::test_a_sum_beyond_the_largest_float_exceeds_the_budget",
    ),
    Mend(
        "N2", "fedlearn/config/fields.py",
        "if isinstance(value, bool) and bool not in", "if value is None and bool not in",
        "unit/config/test_load.py::test_true_is_no_number",
    ),
    Mend(
        "N2", "fedlearn/config/policy.py",
        "    model_config = ConfigDict(strict=True)\n", "",
        "unit/client/test_ledger.py::test_a_policy_that_cannot_be_read_allows_nothing",
    ),
    Mend(
        "O1", "fedlearn/private_trees/sums/cyclic.py",
        "if not self._is_sure(sums, variance):", "if len(released) < 0:",
        "unit/private_trees/federated/test_few_records.py::test_a_skewed_number_that_noise_hides_is_guessed_as_its_median",
    ),
    Mend(
        "O1", "fedlearn/private_trees/federated/models/naive_bayes_model.py",
        "made.start = max(len(self.views.sizes), 1) if is_wide else 0", "made.start = 0 if is_wide else 0",
        "unit/private_trees/federated/test_few_records.py::test_classes_that_noise_hides_are_guessed_as_the_largest",
    ),
    Mend(
        "O1", "fedlearn/private_trees/sums/rounds_search.py",
        "    if declared is not None and budget * declared < ALONE:\n        return 1\n", "",
        "unit/private_trees/federated/test_few_records.py::test_records_that_are_declared_to_be_few_are_asked_for_the_start_alone",
    ),
    Mend(
        "O1", "fedlearn/private_trees/federated/models/forest_classification.py",
        "size = MANY if worth >= ENOUGH else FEW if worth >= FEWEST else NONE", "size = MANY if worth else NONE",
        "unit/private_trees/federated/test_few_records.py::test_random_trees_are_as_many_and_as_deep_as_a_node_can_pay_for",
    ),
    Mend(
        "O2", "fedlearn/private_trees/classes/classifier.py",
        "filter(None, [noise.notice, *self._reasons_against()])", "filter(None, self._reasons_against())",
        "unit/private_trees/test_notices.py::test_seeded_noise_is_said_beside_every_fit_and_secure_noise_needs_no_word",
    ),
    Mend(
        "O3", "fedlearn/auditing/recording.py",
        'return "" if len(set(drawn)) == len(drawn) else', 'return "" if drawn else',
        "unit/auditing/test_replay.py::test_noise_that_can_be_drawn_again_is_an_infinite_loss",
    ),
    Mend(
        "O3", "fedlearn/auditing/recording.py",
        'if len(sent) < (shares := sent[0].parameters["shares"]):',
        'if not (shares := sent[0].parameters["shares"]):',
        "unit/auditing/test_replay.py::test_a_sum_of_shares_is_private_if_there_are_as_many_as_were_divided_for",
    ),
    Mend(
        "O3", "fedlearn/auditing/pairs.py",
        "    return dict(vars(estimator))\n",
        '    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}\n',
        "unit/auditing/test_replay.py::test_all_that_a_fitted_estimator_holds_is_public_whatever_its_name",
    ),
    Mend(
        "O3", "fedlearn/auditing/federated_trees/replays.py",
        "        schemas = _schemas_of(name)\n", "        schemas = _schemas_of(name)[:1]\n",
        "unit/auditing/federated_trees/test_replays.py::test_nodes_of_both_kinds_of_tables_are_replayed_in_any_round",
    ),
    Mend(
        "O3", "fedlearn/auditing/trees/searching_replays.py",
        "epsilon / (2 + eta), at_front", "epsilon, at_front",
        "unit/private_trees/test_searching.py::test_a_run_that_spends_the_whole_budget_is_found",
    ),
    Mend(
        "G1", "fedlearn/flower/object_store.py",
        "SqlObjectStore.preregister = _preregister ",
        "pass ",
        "unit/flower/test_object_store.py::test_a_foretold_record_with_other_children_is_sent_whole_all_the_same",
    ),
    Mend(
        "G2", "fedlearn/flower/superlink_middleware.py",
        "if len(level) > allowed or count > MOST_PARTS or ",
        "if ",
        "unit/flower/test_object_store.py::test_a_tree_that_no_reply_has_is_refused_before_the_database_is_asked",
    ),
    Mend(
        "G3", "fedlearn/flower/replies.py",
        "        if len(arguments) > 1:",
        "        if False:",
        "adversary/test_replies.py::test_G3_a_message_that_cannot_be_sent_is_not_sent_and_all_others_are",
    ),
    Mend(
        "G3", "fedlearn/flower/replies.py",
        "in filter(None, _each_if_not_all(announced, message_ids, None, \"about {}\".format)):",
        "in announced(message_ids):",
        "adversary/test_replies.py::test_G3_a_reply_that_the_superlink_fails_over_is_not_heard_and_all_others_are",
    ),
    Mend(
        "G4", "fedlearn/flower/superlink_middleware.py",
        "if not (math.isfinite(about.created_at) and math.isfinite(about.ttl)):",
        "if False:",
        "unit/flower/test_object_store.py::test_a_time_that_is_none_is_refused",
    ),
    Mend(
        "G4", "fedlearn/flower/superlink_middleware.py",
        "if not all(0 <= seconds <= LONGEST_WORK for seconds in worked):",
        "if False:",
        "unit/flower/test_object_store.py::test_work_that_cannot_be_is_not_added_up",
    ),
    Mend(
        "G5", "fedlearn/flower/superlink_middleware.py",
        "    if not request.session_id:",
        "    if False:",
        "unit/flower/test_object_store.py::test_a_part_that_names_no_session_is_not_put_into_the_servers",
    ),
    Mend(
        "G5", "fedlearn/flower/superlink_middleware.py",
        "        if session.scalar(asked) is not None:",
        "        if False:",
        "unit/flower/test_object_store.py::test_a_reply_by_the_name_of_a_question_does_not_end_its_sending",
    ),
    Mend(
        "G6", "fedlearn/flower/superlink_middleware.py",
        "        if not response.objects_to_push:",
        "        if False:",
        "unit/flower/test_object_store.py::test_what_answers_no_question_leaves_nothing",
    ),
    Mend(
        "G6", "fedlearn/flower/object_store.py",
        "SqlObjectStore.delete_objects_in_run = _delete_objects_in_run ",
        "pass ",
        "unit/flower/test_object_store.py::test_messages_that_name_one_another_go_with_the_run",
    ),
    Mend(
        "G7", "fedlearn/engine/deployment/admission.py",
        "int(size) > LONGEST.get(scope[\"path\"].removeprefix(flower_superlink.FLEET), SHORT):",
        "False:",
        "unit/engine/deployment/test_admission.py::test_a_stranger_says_no_more_than_a_key",
    ),
    Mend(
        "G8", "fedlearn/engine/deployment/admission.py",
        "or (key and self._requests[key] >= AT_ONCE)",
        "",
        "unit/engine/deployment/test_admission.py::test_one_node_makes_so_many_requests_at_a_time_and_keeps_nobody_else_out",
    ),
    Mend(
        "G9", "fedlearn/wire/boxes.py",
        "return os.urandom(NONCE) + ",
        "return bytes(NONCE) + ",
        "unit/wire/test_wire.py::test_what_is_sent_twice_has_two_names_and_one_size",
    ),
    Mend(
        "G10", "docker-compose.yml",
        "      - ${FEDLEARN_LEDGER:-ledger}:/ledger\n      - ${FEDLEARN_POLICY",
        "      - cache:/cache\n      - ${FEDLEARN_LEDGER:-ledger}:/ledger\n      - ${FEDLEARN_POLICY",
        "compose/test_file.py::test_what_is_run_from_a_cache_no_other_party_writes",
    ),
    Mend(
        "G11", "docker-compose.yml",
        "--require-hashes ",
        "",
        "compose/test_file.py::test_the_image_is_made_from_what_is_named_by_checksum",
    ),
    Mend(
        "H1", "fedlearn/cache/trusted.py", "    if found.st_mode & WRITTEN_BY_OTHERS:\n", "    if False:\n",
        "unit/cache/test_compiled.py::test_what_others_can_have_written_is_never_run",
    ),
    Mend(
        "H1", "fedlearn/cache/trusted.py", "    if found.st_uid not in (0, os.geteuid()):\n", "    if False:\n",
        "unit/cache/test_compiled.py::test_what_others_can_have_written_is_never_run",
    ),
    Mend(
        "H1", "fedlearn/cache/trusted.py", "os.open(path.name, flags | os.O_NOFOLLOW, dir_fd=above)",
        "os.open(path.name, flags, dir_fd=above)",
        "unit/cache/test_compiled.py::test_what_others_can_have_written_is_never_run",
    ),
    Mend(
        "H1", "fedlearn/cache/compiled.py", "pickle.loads(data) if self._digest(data) == digest else None",
        "pickle.loads(data)", "unit/cache/test_compiled.py::test_what_is_kept_is_run_only_whole_and_of_the_same_texts",
    ),
    Mend(
        "H2", "fedlearn/cache/trusted.py", " if not why_not_ours(folder)]", "]",
        "unit/data/test_cache.py::test_where_no_folder_is_ours_it_is_made_in_memory",
    ),
    Mend(
        "H2", "fedlearn/data/entries.py", "        with open_ours(root, place, f\"{name}.npy\") as file:\n",
        "        with (root / place / f\"{name}.npy\").open(\"rb\") as file:\n",
        "unit/data/test_cache.py::test_what_others_can_have_written_is_made_anew",
    ),
    Mend(
        "H3", "fedlearn/data/staging.py", "        _clear(folder)\n", "        pass\n",
        "unit/data/test_cache.py::test_what_a_killed_writer_has_left_is_removed",
    ),
    Mend(
        "H4", "fedlearn/plugins/objects.py",
        "if _stored_digest(folder, reference) not in (\"\", hashlib.sha256(content).hexdigest()):", "if False:",
        "unit/plugins/test_objects.py::test_object_is_the_one_whose_sha256_the_runs_checkpoint_names",
    ),
    Mend(
        "H4", "fedlearn/plugins/objects.py",
        "    if name[0] not in (\"\", reference.removeprefix(SCHEME)):\n", "    if False:\n",
        "unit/plugins/test_objects.py::test_file_that_cannot_be_loaded_is_one_line",
    ),
    Mend(
        "H4", "fedlearn/runs/stored_round.py", "    for name in named:\n", "    for name in ():\n",
        "end_to_end/test_python_call.py::test_run_is_resumed_and_repeated_with_the_code_that_it_was_begun_with",
    ),
    Mend(
        "H5", "fedlearn/engine/embedded/embedded_grid.py",
        "(CALL_PATIENCE, CALL_TRIES) if seconds is None else (max(seconds, LEAST_PATIENCE), 2)",
        "(CALL_PATIENCE, CALL_TRIES)",
        f"{POOL}::test_an_evaluation_hangs_where_nothing_has_ended_for_as_long_as_nodes_have_to_report",
    ),
    Mend(
        "H6", "fedlearn/cache/trusted.py",
        "        if error.errno not in NO_LOCKS:\n            raise\n", "        raise\n",
        "adversary/test_stored.py::test_h6_run_on_a_disk_without_locks_and_folder_syncs_has_the_bytes_of_any",
    ),
    Mend(
        "H6", "fedlearn/cache/trusted.py",
        "        if error.errno not in NO_SYNCS:\n            raise\n", "        raise\n",
        "adversary/test_stored.py::test_h6_run_on_a_disk_without_locks_and_folder_syncs_has_the_bytes_of_any",
    ),
    Mend(
        "H6", "fedlearn/runs/ledgers.py", "        if not files.lock(file.fileno(), kind):\n",
        "        if not files.lock(file.fileno(), kind) and False:\n",
        "unit/runs/test_ledgers.py::test_a_disk_without_locks_keeps_no_ledger",
    ),
    Mend(
        "H6", "fedlearn/runs/ledgers.py", "elif not self.path.exists() and not files.sync_folder(self.path.parent):",
        "elif False:", "unit/runs/test_ledgers.py::test_a_disk_without_folder_syncs_begins_no_ledger",
    ),
    Mend(
        "H6", "fedlearn/engine/deployment/claims.py", "    if partition_id is None:\n        raise",
        "    if False:\n        raise",
        "unit/engine/deployment/test_claims.py::test_without_locks_a_partition_is_taken_only_if_it_is_named",
    ),
    Mend(
        "J1", "fedlearn/models/output_axes.py",
        "return outputs[0] == targets[0] and _longer_than_1(outputs) == _longer_than_1(targets)",
        "return sorted(outputs) == sorted(targets)",
        f"{AXES}::test_other_order_of_axes_is_refused_with_both_shapes",
    ),
    Mend(
        "J1", "fedlearn/models/objectives/number_objectives.py",
        "return numbers.permute(0, 3, 1, 2) if learns_images(self.spec) else numbers", "return numbers",
        f"{AXES}::test_module_that_returns_its_images_is_never_wrong",
    ),
    Mend(
        "J2", "fedlearn/models/objectives/classes.py",
        "if len(axes) > 1 and self.class_axis is None:", "if not targets.ndim:",
        f"{AXES}::test_as_many_places_as_classes_are_never_guessed",
    ),
    Mend(
        "J2", "fedlearn/models/networks/lstm.py",
        "    class_axis = 1\n", "",
        f"{AXES}::test_networks_of_the_table_say_where_their_classes_stand",
    ),
    Mend(
        "J3", "fedlearn/data/sources/declared.py",
        "            array = array[..., 0]\n", "            break\n",
        "unit/data/sources/test_targets.py::test_masks_with_an_axis_of_one_are_masks",
    ),
    Mend(
        "J3", "fedlearn/data/data_spec.py",
        "if self.targets.shape[1:] == (1,):", "if not self.targets.shape:",
        "unit/data/sources/test_targets.py::test_column_of_examples_is_a_vector",
    ),
    Mend(
        "J4", "fedlearn/data/sources/declared.py",
        "if self.classes is None and _is_one_hot(array):", "if self.classes == 0 and _is_one_hot(array):",
        "unit/data/sources/test_targets.py::test_one_hot_rows_are_refused_in_one_line",
    ),
    Mend(
        "J5", "fedlearn/models/objectives/classes.py",
        '(logits, Tensor):\n            return "" if self.has_own_loss else no_tensor(outputs)',
        "(outputs, Tensor):\n            return no_tensor(outputs)",
        f"{AXES}::test_loss_of_ones_own_sees_all_that_a_module_returns",
    ),
    Mend(
        "J6", "fedlearn/models/objectives/objective_choice.py",
        "    if is_one_of(LOSSES_OF_LABELS, found):\n        return Labels(spec, found)\n", "",
        f"{AXES}::test_several_labels_an_example_are_judged_by_right_labels",
    ),
    Mend(
        "J6", "fedlearn/models/objectives/number_objectives.py",
        "self.metrics = self.metrics.judged_by_loss()", "self.metrics = NEURAL_REGRESSOR",
        f"{AXES}::test_no_error_of_what_may_be_logits_chooses_the_best_round",
    ),
    Mend(
        "J7", "fedlearn/models/torch/evaluating.py",
        "has_nan(outputs):\n                measured", "outputs is None:\n                measured",
        f"{AXES}::test_nan_is_no_answer",
    ),
    Mend(
        "J7", "fedlearn/models/objectives/classes.py",
        "logits.argmax(1).masked_fill(logits.isnan().any(1), -1)", "logits.argmax(1)",
        f"{AXES}::test_nan_is_no_answer",
    ),
    Mend(
        "J8", "client/examples.py",
        'if config.rounds.schedule != "synchronous" or filled >= needed:', "if filled:",
        "unit/client/test_examples.py::test_too_few_nodes_with_examples_are_refused_with_the_remedy",
    ),
    Mend(
        "J9", "fedlearn/models/torch/notes.py",
        "    yield from _hooks(model, learner)\n", "",
        f"{NOTES}::test_hooks_that_are_not_called_are_said",
    ),
    Mend(
        "J9", "fedlearn/models/torch/notes.py",
        "        if _add_up_to_1(outputs.detach(), model):", "        if outputs is None:",
        f"{NOTES}::test_softmax_before_cross_entropy_is_said",
    ),
    Mend(
        "J9", "fedlearn/models/torch/notes.py",
        "if largest[most] > UNLIKE * largest[least]:", "if largest[most] < 0:",
        f"{NOTES}::test_scale_of_columns_is_said",
    ),
    Mend(
        "J9", "fedlearn/models/torch/notes.py",
        "    yield from _no_sums(model, examples, outputs)\n", "",
        f"{NOTES}::test_measure_that_is_no_sum_is_said",
    ),
    Mend(
        "J10", "fedlearn/commands/shared.py",
        'yield "learning rate", escape(str(summary["learning_rate"]))', "pass",
        "end_to_end/test_notes.py::test_result_says_how_the_rate_falls",
    ),
    Mend(
        "K1", "client/isolated_fits.py",
        "            for each in self._beside:\n                each.put_back()",
        "            pass",
        "unit/client/test_isolated_fits.py::test_a_fit_is_the_same_whatever_was_trained_before",
    ),
    Mend(
        "K1", "fedlearn/models/torch/torch_model.py",
        "        self.beside.put_back()\n        self._state.load(state)",
        "        self._state.load(state)",
        "unit/models/test_states.py::test_what_is_in_no_state_begins_anew_when_a_state_is_loaded",
    ),
    Mend(
        "K1", "fedlearn/models/torch/hidden_state.py",
        "        if not self.is_left:\n",
        "        if False:\n",
        "unit/models/torch/test_hidden_state.py::test_what_a_module_keeps_is_named_and_put_back",
    ),
    Mend(
        "K2", "client/isolated_fits.py",
        "        with seeded_globals(seed if self._is_seeded else None, held):\n            yield",
        "        yield",
        "unit/client/test_isolated_fits.py::test_nodes_draw_other_numbers_and_those_of_the_process_stay",
    ),
    Mend(
        "K2", "fedlearn/models/torch/torch_model.py",
        "return seeded_globals(self._seed, self.beside.generators) if is_foreign else nullcontext()",
        "return nullcontext()",
        "unit/models/test_states.py::test_what_a_module_draws_is_the_same_in_each_process",
    ),
    Mend(
        "K3", "client/isolated_fits.py",
        "            is_alike = is_same(first, self._trial_fit(state, train))",
        "            is_alike = True",
        "unit/client/test_isolated_fits.py::test_a_trial_refuses_what_can_be_neither_seeded_nor_put_back",
    ),
    Mend(
        "K4", "fedlearn/models/torch/module_state.py",
        "            if owner[name] is not tensor:",
        "            if False:",
        "unit/models/test_states.py::test_buffer_that_a_module_replaces_is_part_of_the_state",
    ),
    Mend(
        "K5", "fedlearn/models/torch/module_state.py",
        "self.tensors = {name: each.detach() for name, each in held.items() if name not in self.tied}",
        "self.tensors = {name: each.detach() for name, each in held.items()}",
        "unit/models/test_states.py::test_tensor_with_several_names_stands_in_the_state_once_by_the_first",
    ),
    Mend(
        "K5", "fedlearn/core/state_files.py",
        "found = arrays | {name: arrays[stored] for name, stored in tied.items()}",
        "found = arrays",
        "end_to_end/test_states_of_modules.py::test_tied_parameters_are_sent_and_stored_once_and_stay_equal",
    ),
    Mend(
        "K6", "server/committing.py",
        "_with_auxiliary(run, kept_in_bounds(step.state, run.state))",
        "_with_auxiliary(run, step.state)",
        "end_to_end/test_states_of_modules.py::test_variances_are_never_negative_under_any_codec_or_strategy",
    ),
    Mend(
        "K6", "fedlearn/models/torch/module_state.py",
        "            self.tensors[name].clamp_(min=0)",
        "            pass",
        "unit/models/test_states.py::test_variance_below_zero_is_zero_in_the_module",
    ),
    Mend(
        "K7", "client/learners/sgd.py",
        "            del cuts[-2]",
        "            pass",
        "unit/client/test_isolated_fits.py::test_last_example_that_is_left_over_alone_goes_with_the_batch_before",
    ),
    Mend(
        "K7", "client/learners/sgd.py",
        "            self.model.module.eval()",
        "            pass",
        "unit/client/test_isolated_fits.py::test_node_of_one_example_learns_it_by_what_norms_have_stored",
    ),
    Mend(
        "K8", "fedlearn/models/loaded.py",
        "examples.at(np.arange(TRIED) % len(examples))",
        "dataset.test.at(slice(0, TRIED))",
        "end_to_end/test_states_of_modules.py::test_nodes_whose_last_batch_is_one_example_report",
    ),
    Mend(
        "K9", "fedlearn/models/torch/torch_model.py",
        'np.require(arrays[name], requirements="W")',
        "arrays[name]",
        "unit/models/test_states.py::test_arrays_that_must_not_be_written_to_are_copied",
    ),
    Mend(
        "I1", "fedlearn/data/schema_file.py",
        "_in_one_form(text_of(path))",
        "_in_one_form(path.read_text(encoding=\"utf-8\"))",
        "unit/data/sources/test_files.py::test_what_is_no_regular_file_is_one_line_at_once",
    ),
    Mend(
        "I1", "fedlearn/data/partition_map.py",
        "text = text_of(file, most=MOST_BYTES)",
        "text = file.read_text(encoding=\"utf-8-sig\")",
        "unit/data/test_partition_map.py::test_of_a_partition_file_no_more_is_read_than_any_has",
    ),
    Mend(
        "I2", "fedlearn/runs/folder.py",
        "summary = json.loads(read_small(path))",
        "summary = json.loads(path.read_bytes())",
        "unit/api/test_result.py::test_a_look_at_a_spoiled_file_is_one_line_at_once",
    ),
    Mend(
        "I3", "fedlearn/report/charts/round_charts.py",
        "return max(1, -(-len(run.rounds) // MOST_BARS))",
        "return 1",
        "unit/report/test_charts.py::test_bars_of_many_rounds_are_means_of_several",
    ),
    Mend(
        "I3", "fedlearn/report/charts/curves.py",
        "y, low, high = (means(values, step)",
        "y, low, high = (values[::step]",
        "unit/report/test_charts.py::test_points_of_long_lines_are_means_of_their_rounds",
    ),
    Mend(
        "I4", "fedlearn/report/tables.py",
        "if begins and begins in FORMULA and",
        "if begins and begins in () and",
        "unit/report/test_tables.py::test_no_cell_and_no_head_is_a_formula_for_a_spreadsheet",
    ),
    Mend(
        "I5", "fedlearn/report/tables.py",
        "startswith(('[', '*'))",
        "startswith(())",
        "unit/report/test_tables.py::test_no_row_is_an_option_of_the_row_above",
    ),
    Mend(
        "I6", "fedlearn/data/reading.py",
        "except Exception as error:  # libraries raise",
        "except OSError as error:  # libraries raise",
        "unit/data/sources/test_files.py::test_whatever_a_library_raises_names_the_file",
    ),
    Mend(
        "I7", "fedlearn/data/reading.py",
        "if not stat.S_ISREG(found.st_mode):",
        "if stat.S_ISDIR(found.st_mode):",
        "unit/data/sources/test_files.py::test_a_picture_that_is_no_regular_file_is_one_line_at_once",
    ),
    Mend(
        "I8", "fedlearn/data/reading.py",
        "    if size <= UNPACKED:",
        "    if size >= 0:",
        "unit/data/sources/test_files.py::test_a_file_that_unpacks_without_end_is_refused_before_it_is_read",
    ),
    Mend(
        "I8", "fedlearn/data/sources/table_files.py",
        "check_unpacked(path, unpacked_size(parquet))",
        "unpacked_size(parquet)",
        "unit/data/sources/test_files.py::test_a_parquet_file_that_unpacks_without_end_is_refused_before_it_is_read",
    ),
    Mend(
        "I9", "fedlearn/data/sources/images.py",
        "if width * height > MOST_PIXELS:",
        "if width * height < 0:",
        "unit/data/sources/test_files.py::test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded",
    ),
    Mend(
        "I10", "fedlearn/data/entries.py",
        "_hash(os.fsencode(f'{FORMAT}/{key}'))",
        "_hash(f'{FORMAT}/{key}'.encode())",
        "unit/data/sources/test_files.py::test_names_that_are_no_utf8_are_read",
    ),
    Mend(
        "I11", "fedlearn/data/sources/image_folder.py",
        "return name.startswith(\".\") or name in OF_OTHERS",
        "return name == \".git\"",
        "unit/data/sources/test_files.py::test_hidden_copies_are_not_learned_from",
    ),
    Mend(
        "I12", "fedlearn/data/sources/images.py",
        ".astype(np.float64) / 257",
        ".astype(np.float64)",
        "unit/data/sources/test_files.py::test_sixteen_bits_are_scaled_by_their_range",
    ),
    Mend(
        "I13", "fedlearn/data/sources/as_arrays.py",
        "return frame.select(chosen) if hasattr(frame, \"column_names\") else frame[chosen]",
        "return frame",
        "unit/data/sources/test_like.py::test_a_test_frame_with_its_columns_in_another_order_is_put_in_ours",
    ),
    Mend(
        "I13", "fedlearn/data/sources/named_columns.py",
        "            held_out = _by_name(chosen.taken(of_test, names), classes)\n",
        "            of_test = columns_of_file(test_path, dialect, None, {})\n"
        "            held_out = _by_name(chosen.taken(of_test, chosen.names_in(of_test)), classes)\n",
        "unit/data/sources/test_files.py::test_the_columns_of_a_test_file_are_found_by_their_names",
    ),
    Mend(
        "I14", "fedlearn/data/sources/like.py",
        "targets = by_names(targets,",
        "by_names(targets,",
        "unit/data/sources/test_like.py::test_classes_are_those_of_the_same_names",
    ),
    Mend(
        "I14", "fedlearn/data/sources/libraries.py",
        "y_test = by_names(y_test, _names(test)",
        "by_names(y_test, _names(test)",
        "unit/data/sources/test_like.py::test_classes_of_a_torch_test_set_are_those_of_the_same_names",
    ),
    Mend(
        "I15", "fedlearn/data/sources/like.py",
        "        if kind not in \"iu\":\n            remedy",
        "        if kind not in \"iuf\":\n            remedy",
        "unit/data/sources/test_like.py::test_inputs_of_another_kind_are_refused_in_one_line",
    ),
    Mend(
        "I16", "fedlearn/data/sources/leaf.py",
        "if isinstance(x, str) and x.lower().endswith(SUFFIXES):",
        "if isinstance(x, str) and not x:",
        "unit/data/sources/test_files.py::test_names_of_pictures_are_no_texts",
    ),
    Mend(
        "I17", "fedlearn/data/sources/column_values.py",
        "if pa.types.is_decimal(column.type):",
        "if pa.types.is_null(column.type):",
        "unit/data/sources/test_files.py::test_decimals_are_numbers",
    ),
    Mend(
        "I17", "fedlearn/data/sources/as_arrays.py",
        "missing = first_missing(array)\n", "missing = None\n",
        "unit/data/sources/test_arrays.py::test_wrong_arrays_are_refused_in_one_line",
    ),
    Mend(
        "I18", "fedlearn/data/sources/column_values.py",
        "INDEX = (\"\", \"Unnamed: 0\", \"__index_level_0__\")",
        "INDEX = (\"no\",)",
        "unit/data/sources/test_files.py::test_a_first_column_of_row_numbers_is_left_out_and_said",
    ),
    Mend(
        "I19", "fedlearn/data/sources/column_values.py",
        "if counts[name] > 1",
        "if counts[name] > 9",
        "unit/data/sources/test_files.py::test_two_columns_of_one_name_are_named_where_they_are_wanted",
    ),
    Mend(
        "I20", "fedlearn/report/charts/curves.py",
        "x <= EQUAL * other_x, EQUAL * x < other_x",
        "x <= other_x, x < other_x",
        "unit/report/test_charts.py::test_bytes_are_compared_in_pairs_whatever_the_largest_run_has_sent",
    ),
    Mend(
        "I21", "fedlearn/core/metrics.py",
        "m.is_privacy_loss or m.is_result or m not in",
        "m.is_privacy_loss or m not in",
        "unit/core/test_metrics.py::test_scores_on_nodes_are_results",
    ),
    Mend(
        "I22", "fedlearn/report/charts/plots.py",
        "    elif chart.x_title in WHOLE:\n",
        "    elif chart.x_title in ():\n",
        "unit/report/test_charts.py::test_no_tick_lies_between_two_rounds",
    ),
    Mend(
        "I22", "fedlearn/report/numbers.py",
        "shown = max(4 if abs(mean) < 1000 else 1, -floor(log10(sd)))",
        "shown = 4",
        "unit/report/test_tables.py::test_a_deviation_shows_or_is_not_written",
    ),
)  # fmt: skip
"""In the order of the table. A mend of several parts has several."""


def copied(place: Path) -> Path:
    """Return a copy of the code."""
    left_out = shutil.ignore_patterns("__pycache__", "_build", ".*_cache", ".hypothesis")
    for name in CODE:
        shutil.copytree(ROOT / name, place / name, ignore=left_out, symlinks=True)
    for name in FILES:
        shutil.copy(ROOT / name, place / name)
    return place


@contextmanager
def taken_out(mend: Mend, copy: Path) -> Iterator[None]:
    """Take a mend out of a copy of the code, for as long as the block lasts."""
    path = copy / mend.file
    whole = path.read_text(encoding="utf-8")
    if whole.count(mend.text) != 1:
        raise LookupError(f"{mend.file} holds {mend.text!r} {whole.count(mend.text)} times, not once")
    path.write_text(whole.replace(mend.text, mend.without), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(whole, encoding="utf-8")


def ended(*tests: str, copy: Path, seconds: float) -> tuple[Ended, str]:
    """Run tests of a copy of the code; return how they have ended, and what pytest says of it at last."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", "-p", "no:cacheprovider"]
    command += [f"tests/{test}" for test in tests]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return Ended.HANGS, ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it has started, too
    if process.returncode == PASSED:
        return (Ended.SKIPPED if re.search(r"\d skipped", said) else Ended.PASSED), ""
    return (Ended.FAILED if process.returncode == FAILED else Ended.BROKEN), said[-LAST:]


def needed(mends: Sequence[Mend]) -> bool:
    """Take out the mends, one after another; return whether each test passes, and needs its mend to."""
    with tempfile.TemporaryDirectory() as place:
        copy = copied(Path(place))
        tests = {mend.test: mend.seconds for mend in mends}
        sound, said = ended(*tests, copy=copy, seconds=sum(tests.values()))
        print(f"with all mends: {len(tests)} tests, together: {sound}\n{said}", flush=True)
        print(f"{'fault':<5} {'without it':<10} {'seconds':>7}  test")
        wrong = int(sound is not Ended.PASSED)
        for mend in mends:
            begin = time.monotonic()
            with taken_out(mend, copy):
                without, _ = ended(mend.test, copy=copy, seconds=mend.seconds)
            is_right = without in (Ended.FAILED, Ended.HANGS)
            wrong += not is_right
            mark = "" if is_right else "  <- wrong"
            print(f"{mend.fault:<5} {without:<10} {time.monotonic() - begin:>7.1f}  {mend.test}{mark}", flush=True)
    print(f"wrong={wrong}")
    return not wrong


def main(only: Annotated[list[str] | None, typer.Option(help="Only the mends of this fault.")] = None) -> None:
    """Take out the mends, one after another; exit code 1 if a test does not need its mend."""
    raise SystemExit(0 if needed([mend for mend in MENDS if not only or mend.fault in only]) else 1)


if __name__ == "__main__":
    typer.run(main)
