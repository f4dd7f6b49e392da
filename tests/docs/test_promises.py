# ruff: noqa: E501 - a row a line
"""The sentences of the pages that promise something against a server, a client or a reader, each with the test behind it.

Who changes such a sentence changes its row, and who adds one adds a row; each test must exist.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"

AGAINST = "explanations/privacy_against_whom.md"
SUMS = "howto/secure_sums.md"
RECORDS = "howto/private_records.md"
OWNER = "howto/deployment_owner.md"

PROMISES = [
    (AGAINST, "the server sees the sum of a cohort's updates, and no single one", "test_report_holds_nothing_but_what_is_masked"),
    (AGAINST, "A server that drops clients gets no smaller sum", "test_a_node_signs_no_set_with_less_noise_than_it_needs"),
    (AGAINST, "a server that invents clients is refused if peers are listed", "test_nodes_that_a_server_has_invented_are_refused_where_peers_are_listed"),
    (AGAINST, "a real client sends a share only into a", "test_a_share_of_noise_wants_masks_listed_peers_and_noise_without_the_owners_colluders"),
    (AGAINST, "is charged before the client sends anything", "test_a_run_submitted_again_or_by_a_hostile_server_costs_nothing_more"),
    (AGAINST, "it learns only their sum over at least the quorum", "test_quorum_of_the_whole_cohort_is_asked_before_the_sum_is"),
    (AGAINST, "they learn only the sum of the other clients", "test_nothing_that_goes_wrong_and_no_lie_breaks_what_must_hold"),
    (AGAINST, "each signs one set in an attempt", "test_two_sets_of_survivors_never_both_get_their_signatures"),
    (AGAINST, "answers one unmasking of a round", "test_after_an_unmasking_the_round_is_never_run_again"),
    (AGAINST, "demands the signatures of more than half of the clients", "test_a_lie_about_nodes_is_refused"),
    (AGAINST, "masks of different questions never cancel", "test_the_masks_of_nodes_that_were_asked_different_things_never_cancel"),
    (AGAINST, "it signs one set of clients for each question, over all runs and servers", "test_the_same_question_is_not_answered_with_a_node_less"),
    (AGAINST, "a server that replaces the clients' keys by its own", "test_keys_that_a_server_puts_in_place_of_a_peers_are_refused"),
    (AGAINST, "TLS, and masks", "test_a_million_masked_entries_are_spread_evenly"),
    (AGAINST, "it learns the sum of each group", "test_group_of_which_too_few_report_is_discarded_whole_and_nothing_of_it_is_unmasked"),
    (AGAINST, "no secret of a client is ever written there", "test_no_secret_of_a_node_lies_in_the_run_folder_or_outlives_its_round"),
    (AGAINST, "is left out of the next attempt, and named in the log", "test_a_node_that_the_others_refuse_is_left_out_and_named"),
    (SUMS, "so the run has the same bytes as without masks", "test_nodes_that_vanish_leave_the_sum_of_the_others_to_the_byte"),
    (SUMS, "Impossible settings\nare refused before round 1", "test_level_that_no_graph_has_is_refused_before_round_1"),
    (SUMS, "a group that loses too many is discarded", "test_group_of_which_too_few_report_is_discarded_whole_and_nothing_of_it_is_unmasked"),
    (SUMS, "null stays null", "test_state_is_the_mean_over_the_groups_that_sent_an_entry_and_others_keep_their_value"),
    (SUMS, "f liars spoil at most f groups", "test_one_liar_is_out_voted_where_it_moves_the_plain_mean"),
    (SUMS, "`left-out` events name all of them", "test_the_whole_group_of_a_liar_is_left_out_and_named"),
    (SUMS, "Clients reject smaller sets of survivors", "test_a_node_signs_no_set_with_less_noise_than_it_needs"),
    (SUMS, "A client's ledger is charged the whole epsilon of the round before the update leaves", "test_five_supernodes_share_the_noise_of_their_sum_and_each_pays_for_all_of_it"),
    (SUMS, "else it answers `trust-not-allowed`", "test_a_share_of_noise_wants_masks_listed_peers_and_noise_without_the_owners_colluders"),
    (SUMS, "They are **exact**", "test_exact_statistics_are_those_of_all_rows"),
    (SUMS, "with a ledger, where the owner names the model", "test_a_real_node_without_peers_or_ledger_adds_nothing_exact"),
    (SUMS, "of *all* its rows", "test_no_server_chooses_or_cuts_the_rows_of_an_exact_sum"),
    (SUMS, "with *one set of clients*", "test_exact_sums_are_of_all_rows_whatever_the_seed_and_of_one_set_of_nodes"),
    (SUMS, "three sums may reveal one client's numbers", "test_a_weaker_rule_is_found"),
    (SUMS, "Within one round a smaller set may follow", "test_a_node_that_vanishes_before_the_sum_is_unmasked_ends_nothing"),
    (SUMS, "the client takes part in no exact sum until a copy is put back", "test_a_node_that_has_lost_sets_is_not_ready_and_signs_nothing"),
    (SUMS, "proves that one set for each client is enough", "test_no_sequence_of_sums_tells_of_one_node"),
    (SUMS, "A sum that is impossible for honest clients is rejected, and its round skipped", "test_a_sum_beyond_the_range_of_its_nodes_is_refused"),
    (SUMS, "After clients are asked to unmask a sum, there is no other sum of that round", "test_after_an_unmasking_the_round_is_never_run_again"),
    (SUMS, "a resumed server asks for the same sum again", "test_a_server_that_was_killed_asks_for_the_very_same_set"),
    (SUMS, "sets the number of colluders that the sum, and shared noise, must tolerate", "test_a_level_below_the_owners_colluders_is_refused"),
    (SUMS, "unmasks only sums of at least `--least-peers` updates", "test_a_lie_about_nodes_is_refused"),
    (SUMS, "refuses every message of a run without masked sums, and every evaluation", "test_a_node_with_peers_takes_part_in_nothing_but_secure_sums"),
    (SUMS, "a client without memory takes part in no secure sum", "test_a_node_without_a_folder_for_its_memory_takes_part_in_no_secure_sum"),
    (SUMS, "the page and `summary.json` say whether all clients signed with their own keys", "test_summary_and_page_say_what_the_server_has_seen"),
    (RECORDS, "draws each record into the batch independently", "test_coins_are_drawn_at_the_rate_each_by_itself"),
    (RECORDS, "clips the gradient of each example, over all parameters together", "test_networks_of_ours_give_the_sum_of_the_clipped_gradients_of_their_examples"),
    (RECORDS, "divides by the *expected* size", "test_a_fit_is_the_algorithm_of_the_paper"),
    (RECORDS, "never from the true number", "test_steps_rate_and_divisor_follow_from_the_declared_number"),
    (RECORDS, "After that number a client is `not-ready`", "test_a_node_takes_part_in_no_more_rounds_than_its_noise_is_made_for"),
    (RECORDS, "`secure` protects; `seeded` (default of a simulation) is repeatable", "test_the_same_seed_gives_the_same_bytes_and_secure_noise_others_each_time"),
    (RECORDS, "a run on undeclared data is refused before round 1", "test_records_that_nobody_has_declared_are_refused"),
    (RECORDS, "whether it is for training or testing", "test_one_record_more_moves_no_other_one_and_changes_nothing_public"),
    (RECORDS, "is left out without an error", "test_one_record_more_moves_no_other_one_and_changes_nothing_public"),
    (RECORDS, "Seeded noise gives no privacy, so a study with it may count", "test_seeded_noise_protects_nobody_and_may_count"),
    (RECORDS, "Layers that mix examples are refused by name", "test_a_layer_that_mixes_examples_is_refused_by_name"),
    (RECORDS, "a module that changes a parameter or buffer in its forward pass", "test_an_embedding_that_shortens_the_rows_of_tokens_it_has_seen_is_refused"),
    (RECORDS, "An example on which the module fails, or whose gradient is not finite, adds nothing", "test_an_example_without_a_finite_gradient_adds_nothing_and_harms_no_other"),
    (RECORDS, "Not supported: secure aggregation", "test_what_would_tell_of_records_is_refused_before_round_1"),
    (RECORDS, "without a delta the client refuses Gaussian noise", "test_what_a_hostile_server_asks_is_refused_and_costs_nothing"),
    (RECORDS, "The ledger has a line for each fit, with the parameters of its noise", "test_a_report_has_arrays_weight_1_and_epsilon_and_the_ledger_the_mechanism"),
    (RECORDS, "A repeated request for a round gets the same bytes", "test_a_question_that_comes_again_gets_the_same_bytes_and_costs_nothing"),
    (RECORDS, "epsilon at delta for each record of a client; add or remove one", "test_one_record_more_moves_the_sum_of_a_step_by_clip_at_most"),
    (OWNER, "no server can change it", "test_the_owners_ceiling_holds_over_runs_and_servers"),
    (OWNER, "whatever data a server names", "test_a_table_that_the_owner_declares_is_trained_on_whatever_file_a_server_names"),
    (OWNER, "takes part only on data sets that come with fedlearn", "test_other_ways_to_the_rows_are_refused"),
    (OWNER, "`epsilon_of_a_run` limits one run; only `largest_epsilon` limits a server", "test_another_question_of_the_run_is_refused_and_another_run_is_paid_until_all_is_spent"),
    (OWNER, "One word of this list, and nothing else", "test_a_node_that_is_spent_and_one_that_may_not_say_the_same_word_to_a_server"),
    (OWNER, "`not-ready` has the same bytes for every reason", "test_a_node_that_is_spent_and_one_that_may_not_say_the_same_word_to_a_server"),
    (OWNER, "none of its settings changes which file the client reads", "test_a_table_that_the_owner_declares_is_trained_on_whatever_file_a_server_names"),
    (OWNER, "whatever shares, seed or number of clients a server sets", "test_no_setting_of_a_server_moves_what_the_least_number_of_records_is_compared_with"),
    (OWNER, "where another ledger would be charged", "test_a_server_cannot_have_one_ledger_pay_for_the_data_of_another"),
    (OWNER, "With or without `--memory`, a real client refuses to add only a share of the noise", "test_a_real_node_without_a_ledger_refuses_distributed_noise_too"),
    (OWNER, "within a run the share with the largest epsilon counts", "test_of_the_shares_of_one_run_the_one_that_spends_the_most_counts"),
    (OWNER, "share one ledger for the whole table", "test_shares_of_one_table_pay_from_one_ledger"),
    (OWNER, "A client charges and syncs the cost of an answer *before* it reads its data", "test_a_run_submitted_again_or_by_a_hostile_server_costs_nothing_more"),
    (OWNER, "gets the same bytes and costs nothing", "test_a_question_that_comes_again_gets_the_same_bytes_at_no_cost"),
    (OWNER, "exit code 1, and which line, if anything was changed or is gone", "test_a_ledger_that_was_changed_stops_the_node"),
    (OWNER, "Noise on real clients is secure by default", "test_noise_on_a_network_is_another_each_time_also_in_forked_processes"),
]  # fmt: skip


@pytest.mark.parametrize("page", sorted({page for page, *_ in PROMISES}))
def test_what_is_promised_stands_on_its_page(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [sentence for of, sentence, _ in PROMISES if of == page and sentence not in text] == []


def test_behind_each_promise_is_a_test():
    texts = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")]
    defined = {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    assert {test for *_, test in PROMISES} - defined == set()
