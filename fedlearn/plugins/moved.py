"""Modules that have moved load by their former names: in a user's import, in the settings of a stored run, in a pickle.

Both names are one module. The first import by a former name warns, once for each line of `MOVED`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from warnings import warn

from fedlearn.plugins.own_packages import BELOW, NAMES, claimed, exists, is_taken

MOVED: dict[str, str] = {
    "fedlearn.words": "fedlearn.core",
    "fedlearn.plugging": "fedlearn.plugins",
    "fedlearn.folding": "fedlearn.aggregation",
    "fedlearn.models.singly": "fedlearn.models.per_example",
    "fedlearn.models.torch_model": "fedlearn.models.torch.torch_model",
    "fedlearn.models.module_state": "fedlearn.models.torch.module_state",
    "fedlearn.models.parts": "fedlearn.models.torch.parts",
    "fedlearn.models.inputs": "fedlearn.models.torch.inputs",
    "fedlearn.models.making": "fedlearn.models.torch.making",
    "fedlearn.models.wrapping": "fedlearn.models.torch.wrapping",
    "fedlearn.models.hooks": "fedlearn.models.torch.hooks",
    "fedlearn.models.precision": "fedlearn.models.torch.precision",
    "fedlearn.models.device": "fedlearn.models.torch.device",
    "fedlearn.models.process": "fedlearn.models.torch.process",
    "fedlearn.models.evaluating": "fedlearn.models.torch.evaluating",
    "fedlearn.models.measuring": "fedlearn.models.torch.measuring",
    "fedlearn.models.trying": "fedlearn.models.torch.trying",
    "fedlearn.models.notes": "fedlearn.models.torch.notes",
    "fedlearn.models.initial": "fedlearn.models.torch.initial",
    "fedlearn.models.buffers": "fedlearn.models.torch.buffers",
    "fedlearn.models.gradients": "fedlearn.models.torch.gradients",
    "fedlearn.models.beside": "fedlearn.models.torch.hidden_state",
    "fedlearn.models.contents": "fedlearn.models.torch.containers",
    "fedlearn.privacy.audit": "fedlearn.auditing",
    "client.audits": "fedlearn.auditing.nodes",
    "server.audits": "fedlearn.auditing.nodes.server_mistakes",
    "client.learners.audits": "fedlearn.auditing.records",
    "fedlearn.private_trees.classes.audits": "fedlearn.auditing.trees.classes_audits",
    "fedlearn.private_trees.classes.replays": "fedlearn.auditing.trees.classes_replays",
    "fedlearn.private_trees.numbers.audits": "fedlearn.auditing.trees.numbers_audits",
    "fedlearn.private_trees.numbers.replays": "fedlearn.auditing.trees.numbers_replays",
    "fedlearn.private_trees.sums.audits": "fedlearn.auditing.trees.sums_audits",
    "fedlearn.private_trees.sums.replays": "fedlearn.auditing.trees.sums_replays",
    "fedlearn.private_trees.federated.replays": "fedlearn.auditing.federated_trees.replays",
    "fedlearn.private_trees.federated.file_replays": "fedlearn.auditing.federated_trees.file_replays",
    "fedlearn.private_trees.searching_replays": "fedlearn.auditing.trees.searching_replays",
    "fedlearn.private_trees.sums.statistics": "fedlearn.statistics.column_histograms",
    "fedlearn.private_trees.federated.models.statistics": "fedlearn.statistics.counted_columns",
    "fedlearn.private_trees.federated.models.sums": "fedlearn.models.sums",
    "fedlearn.private_trees.federated.learners.sums": "client.learners.sums_learner",
    "fedlearn.private_trees.federated.strategies.sums": "strategies.sums_strategy",
    "fedlearn.algorithms.fedyogi": "strategies.fedyogi",
    "fedlearn.algorithms.fedadagrad": "strategies.fedadagrad",
    "fedlearn.algorithms.fedexp": "strategies.fedexp",
    "client.learners.rates": "fedlearn.models.learning_rates",
    "fedlearn.private_trees.as_printed": "experiments.private_trees.as_printed",
    "client.peers": "client.owner.peers",
    "client.sets": "client.owner.signed_sets",
    "client.policy": "client.owner.owner_refusals",
    "client.guards": "client.owner.guards",
    "client.memory_file": "client.owner.memory_file",
    "client.participation": "client.owner.participation",
    "client.discretion": "client.owner.error_disclosure",
    "client.visit": "client.request",
    "client.guests": "client.mods",
    "client.counted": "client.acknowledged_sums",
    "client.fits": "client.isolated_fits",
    "client.node": "client.examples",
    "client.learners.draws": "client.learners.poisson_batches",
    "server.stopping": "server.early_stopping",
    "server.draws": "server.strategy_rng",
    "server.grids": "server.exchange.grids",
    "server.traffic": "server.exchange.traffic",
    "server.notices": "server.exchange.notices",
    "server.late": "server.exchange.late_reports",
    "server.limits": "server.gate.limits",
    "server.norms": "server.gate.norms",
    "server.planned": "server.planning.run_plan",
    "server.fitting": "server.planning.compatibility",
    "server.summary": "server.results.summary",
    "server.printing_log": "server.results.printing_log",
    "server.in_flight": "server.schedules.asynchronous.in_flight",
    "server.buffer": "server.schedules.asynchronous.buffer",
    "server.staleness": "server.schedules.asynchronous.staleness",
    "server.schedules.buffered": "server.schedules.asynchronous.buffered",
    "server.schedules.immediate": "server.schedules.asynchronous.immediate",
    "server.schedules.refusals": "server.schedules.asynchronous.asynchronous_checks",
    "server.schedules.gates": "server.schedules.asynchronous.gates",
    "client.attacking": "client.features.attacked",
    "client.root": "client.features.root_fit",
    "client.noised": "client.features.local_noise",
    "client.apart": "client.features.evaluation.local_baseline",
    "client.beside": "client.features.evaluation.comparison_models",
    "server.node_directory": "server.exchange.node_directory",
    "server.unsent": "server.exchange.frozen_arrays",
    "server.tested": "server.phases.tested",
    "server.completed": "server.results.completed",
    "server.spending": "fedlearn.runs.spending",
    "server.by_hand": "server.schedules.by_hand",
    "client.downlink": "client.received.received_state",
    "client.unsent": "client.received.kept_frozen",
    "client.summing": "client.secure_sums.secure_node",
    "client.whole_question": "client.secure_sums.whole_question",
    "server.anchors": "server.features.downlink.anchors",
    "server.fitting_downlink": "server.features.downlink.downlink_rules",
    "server.secure": "server.features.secure_sums.secure_rules",
    "server.grouped": "server.features.secure_sums.groups_of_cohort",
    "server.masked_gate": "server.features.secure_sums.masked_gate",
    "server.phases.summing": "server.features.secure_sums.collect",
    "server.phases.sums": "server.features.secure_sums.sums_of_attempt",
    "server.phases.asked": "server.features.secure_sums.pending_unmasking",
    "server.phases.group_means": "server.features.secure_sums.group_means",
    "server.node_privacy": "server.features.privacy.node_privacy",
    "server.round_clip": "server.features.privacy.round_clip",
    "server.correlated": "server.features.privacy.correlated",
    "server.fitting_private": "server.features.privacy.privacy_rules",
    "server.attackers": "server.features.attacks.attackers",
    "server.phases.lying": "server.features.attacks.collusion",
    "server.phases.success": "server.features.attacks.backdoor_success",
    "server.phases.apart": "server.features.evaluation.baseline",
    "server.phases.measuring": "server.features.evaluation.on_nodes",
    "server.confusions": "server.features.evaluation.confusion",
    "server.phases.root": "server.features.root_training",
    "fedlearn.privacy.own_noise": "fedlearn.privacy.local_dp",
    "fedlearn.privacy.studies": "fedlearn.privacy.population",
    "fedlearn.privacy.shares": "fedlearn.privacy.honest_count",
    "fedlearn.runs.dealt": "fedlearn.runs.label_counts",
    "fedlearn.runs.remains": "fedlearn.runs.stale_files",
    "fedlearn.api.counts": "fedlearn.api.label_frame",
    "fedlearn.api.drawn": "fedlearn.api.notebook_html",
    "fedlearn.api.guest": "fedlearn.api.isolated_call",
    "fedlearn.data.sources.brought": "fedlearn.data.sources.from_any",
    "fedlearn.data.sources.chosen": "fedlearn.data.sources.column_guessing",
    "fedlearn.data.aside": "fedlearn.data.staging",
    "fedlearn.sweeps.lanes": "fedlearn.sweeps.parallel",
    "fedlearn.sweeps.foretold": "fedlearn.sweeps.estimate",
    "fedlearn.engine.later": "fedlearn.engine.lazy_imports",
    "fedlearn.engine.embedded.hanging": "fedlearn.engine.embedded.stuck_nodes",
    "fedlearn.commands.once": "fedlearn.commands.run_once",
    "fedlearn.commands.unread": "fedlearn.commands.unused_settings",
    "client.feature": "client.node_feature",
    "client.features.attack": "client.features.attacked",
    "client.features.root_training": "client.features.root_fit",
    "client.learners.base": "client.learners.learner",
    "client.received.frozen_arrays": "client.received.kept_frozen",
    "server.selectors.base": "server.selectors.selector",
    "server.features.downlink.rules": "server.features.downlink.downlink_rules",
    "server.features.privacy.rules": "server.features.privacy.privacy_rules",
    "server.features.secure_sums.rules": "server.features.secure_sums.secure_rules",
    "server.features.secure_sums.groups": "server.features.secure_sums.groups_of_cohort",
    "server.features.evaluation.local_baseline": "server.features.evaluation.baseline",
    "server.schedules.asynchronous.refusals": "server.schedules.asynchronous.asynchronous_checks",
    "server.planning.plan": "server.planning.run_plan",
    "strategies.robust.base": "strategies.robust.defence",
    "fedlearn.aggregation.plan": "fedlearn.aggregation.fold_plan",
    "fedlearn.engine.base": "fedlearn.engine.engine_type",
    "fedlearn.engine.ray_runtime.grid": "fedlearn.engine.ray_runtime.runner_grid",
    "fedlearn.engine.embedded.grid": "fedlearn.engine.embedded.embedded_grid",
    "fedlearn.engine.virtual_time.grid": "fedlearn.engine.virtual_time.timed_grid",
    "fedlearn.engine.ray_runtime.engine": "fedlearn.engine.ray_runtime.ray_engine",
    "fedlearn.compression.base": "fedlearn.compression.codec",
    "fedlearn.models.base": "fedlearn.models.model",
    "fedlearn.models.per_example.base": "fedlearn.models.per_example.clipped_sum",
    "fedlearn.models.per_example.alike": "fedlearn.models.per_example.alike_places",
    "fedlearn.models.per_example.mixing": "fedlearn.models.per_example.mixing_layers",
    "fedlearn.models.per_example.layers": "fedlearn.models.per_example.layer_gradients",
    "fedlearn.models.objectives.base": "fedlearn.models.objectives.objective",
    "fedlearn.models.objectives.chosen": "fedlearn.models.objectives.objective_choice",
    "fedlearn.models.objectives.losses": "fedlearn.models.objectives.torch_losses",
    "fedlearn.models.scores.chosen": "fedlearn.models.scores.named_scores",
    "fedlearn.models.stacks.network": "fedlearn.models.stacks.stacked_network",
    "fedlearn.models.stacks.rules": "fedlearn.models.stacks.stack_rules",
    "fedlearn.models.axes": "fedlearn.models.output_axes",
    "fedlearn.models.arithmetic": "fedlearn.models.concerning_changes",
    "fedlearn.data.base": "fedlearn.data.data_spec",
    "fedlearn.attacks.base": "fedlearn.attacks.claim",
    "fedlearn.sweeps.plan": "fedlearn.sweeps.sweep_plan",
    "fedlearn.predicting.stored": "fedlearn.predicting.stored_model",
    "fedlearn.data.stored": "fedlearn.data.kept_arrays",
    "fedlearn.runs.stored": "fedlearn.runs.stored_round",
    "fedlearn.runs.participation": "fedlearn.runs.secret_participation",
    "fedlearn.devices.files": "fedlearn.devices.fleet_files",
    "fedlearn.devices.loading": "fedlearn.devices.fleet_loading",
    "fedlearn.auditing.nodes.chosen": "fedlearn.auditing.nodes.chosen_model",
    "fedlearn.private_trees.declared": "fedlearn.private_trees.declared_input",
    "fedlearn.private_trees.drawing": "fedlearn.private_trees.tree_drawing",
    "fedlearn.private_trees.searching": "fedlearn.private_trees.private_search",
    "fedlearn.private_trees.sums.fitting": "fedlearn.private_trees.sums.private_sums",
    "fedlearn.private_trees.sums.classifier": "fedlearn.private_trees.sums.sums_classifier",
    "fedlearn.private_trees.sums.plan": "fedlearn.private_trees.sums.boost_plan",
    "fedlearn.private_trees.numbers.plan": "fedlearn.private_trees.numbers.tree_plan",
    "fedlearn.private_trees.federated.models.naive_bayes": "fedlearn.private_trees.federated.models.naive_bayes_model",
    "fedlearn.private_trees.federated.models.boosting": "fedlearn.private_trees.federated.models.boosting_model",
    "fedlearn.private_trees.federated.models.relay": "fedlearn.private_trees.federated.models.relay_model",
    "fedlearn.private_trees.federated.strategies.relay": "fedlearn.private_trees.federated.strategies.relay_strategy",
    "fedlearn.private_trees.federated.learners.tree": "fedlearn.private_trees.federated.learners.tree_learner",
    "fedlearn.privacy.factorization.noise": "fedlearn.privacy.factorization.correlated_noise",
    "fedlearn.privacy.accounts.skellam": "fedlearn.privacy.accounts.skellam_account",
    "fedlearn.data.sources.arrays": "fedlearn.data.sources.array_source",
    "fedlearn.auditing.account": "fedlearn.auditing.auditor_account",
    "fedlearn.flower.mods": "fedlearn.flower.named_mods",
    "fedlearn.flower.apps": "fedlearn.flower.flower_apps",
    "fedlearn.wire.secure": "fedlearn.wire.secure_records",
    "fedlearn.wire.reports": "fedlearn.wire.report_records",
    "fedlearn.models.objectives.numbers": "fedlearn.models.objectives.number_objectives",
    "fedlearn.models.scores.predictions": "fedlearn.models.scores.metric_inputs",
    "fedlearn.report.page.analysis": "fedlearn.report.page.analysis_section",
    "fedlearn.report.page.classes": "fedlearn.report.page.classes_section",
    "fedlearn.report.page.gains": "fedlearn.report.page.gains_section",
    "fedlearn.report.page.learning": "fedlearn.report.page.curves_section",
    "fedlearn.report.page.nodes": "fedlearn.report.page.clients_section",
    "fedlearn.report.page.runs": "fedlearn.report.page.runs_section",
    "fedlearn.report.page.settings": "fedlearn.report.page.settings_lookup",
    "fedlearn.report.page.statistics": "fedlearn.report.page.statistics_section",
    "fedlearn.report.charts.cells": "fedlearn.report.charts.heat_map",
    "fedlearn.report.charts.learning": "fedlearn.report.charts.curves",
    "fedlearn.report.charts.nodes": "fedlearn.report.charts.client_charts",
    "fedlearn.report.charts.rounds": "fedlearn.report.charts.round_charts",
    "fedlearn.report.gains": "fedlearn.report.gains_rows",
    "fedlearn.report.rows": "fedlearn.report.number_rows",
    "fedlearn.report.partitions": "fedlearn.report.partition_report",
    "fedlearn.report.traffic": "fedlearn.report.run_traffic",
    "fedlearn.config.tables.contributions": "fedlearn.config.tables.contribution_settings",
    "fedlearn.config.tables.learning": "fedlearn.config.tables.learning_settings",
    "fedlearn.config.tables.rounds": "fedlearn.config.tables.round_settings",
    "fedlearn.config.tables.running": "fedlearn.config.tables.running_settings",
    "fedlearn.config.layers": "fedlearn.config.config_sources",
    "fedlearn.engine.deployment.client": "fedlearn.engine.deployment.client_processes",
    "fedlearn.engine.deployment.server": "fedlearn.engine.deployment.server_processes",
    "fedlearn.engine.deployment.keys": "fedlearn.engine.deployment.deployment_keys",
    "fedlearn.engine.deployment.status": "fedlearn.engine.deployment.server_status",
    "fedlearn.flower.superlink": "fedlearn.flower.superlink_middleware",
    "fedlearn.flower.supernode": "fedlearn.flower.prompt_supernode",
    "fedlearn.secure.node": "fedlearn.secure.node_protocol",
    "fedlearn.secure.server": "fedlearn.secure.server_protocol",
    "fedlearn.secure.keys": "fedlearn.secure.key_agreement",
    "fedlearn.secure.messages": "fedlearn.secure.protocol_messages",
    "fedlearn.secure.policy": "fedlearn.secure.demands",
    "client.secure_sums.node": "client.secure_sums.secure_node",
    "fedlearn.core.node": "fedlearn.core.client_facts",
    "fedlearn.predicting.nodes": "fedlearn.predicting.node_model",
    "fedlearn.predicting.answers": "fedlearn.predicting.predictions_in_words",
    "fedlearn.predicting.frames": "fedlearn.predicting.named_rows",
    "fedlearn.predicting.scored": "fedlearn.predicting.predicted_file",
    "fedlearn.privacy.nodes": "fedlearn.privacy.node_costs",
    "fedlearn.privacy.records": "fedlearn.privacy.record_costs",
    "fedlearn.privacy.mechanisms.parts": "fedlearn.privacy.mechanisms.parallel_parts",
    "fedlearn.privacy.accounts.rounds": "fedlearn.privacy.accounts.repeated_gaussian",
    "fedlearn.private_trees.nodes": "fedlearn.private_trees.node_table",
    "fedlearn.private_trees.columns": "fedlearn.private_trees.table_cells",
    "fedlearn.runs.nodes": "fedlearn.runs.nodes_csv",
    "fedlearn.runs.state_files": "fedlearn.core.state_files",
    "fedlearn.runs.answers": "fedlearn.runs.analysis_answers",
    "fedlearn.runs.classes": "fedlearn.runs.classes_json",
    "fedlearn.runs.statistics": "fedlearn.runs.statistics_json",
    "fedlearn.runs.contributions": "fedlearn.runs.stored_changes",
    "fedlearn.runs.names": "fedlearn.runs.file_names",
    "fedlearn.runs.settings": "fedlearn.runs.settings_of_resume",
    "fedlearn.runs.usage": "fedlearn.runs.machine_usage",
    "fedlearn.runs.reading": "fedlearn.runs.safe_reading",
    "server.phases.answers": "server.phases.evaluation_answers",
    "fedlearn.sweeps.choosing": "fedlearn.sweeps.best_settings",
    "fedlearn.sweeps.running": "fedlearn.sweeps.sweep_runs",
    "fedlearn.models.per_example.choosing": "fedlearn.models.per_example.fastest_way",
    "fedlearn.models.per_example.examples": "fedlearn.models.per_example.made_up_examples",
    "fedlearn.models.objectives.counted": "fedlearn.models.objectives.counted_targets",
    "fedlearn.models.networks.rows": "fedlearn.models.networks.network_rows",
    "fedlearn.models.slices.layers": "fedlearn.models.slices.slicing_rules",
    "fedlearn.models.tables": "fedlearn.models.models_of_tables",
    "fedlearn.api.rounds": "fedlearn.api.rounds_by_hand",
    "fedlearn.api.frames": "fedlearn.api.run_frames",
    "fedlearn.data.sources.columns": "fedlearn.data.sources.named_columns",
    "fedlearn.data.folder": "fedlearn.data.data_folder",
    "fedlearn.data.packing": "fedlearn.data.packed_examples",
    "fedlearn.data.partitions": "fedlearn.data.rows_of_nodes",
    "fedlearn.data.private": "fedlearn.data.private_examples",
    "fedlearn.data.tables": "fedlearn.data.encoded_tables",
    "fedlearn.engine.ray_runtime.folder": "fedlearn.engine.ray_runtime.ray_folder",
    "fedlearn.statistics.cells": "fedlearn.statistics.small_cells",
    "fedlearn.statistics.counted": "fedlearn.statistics.counted_columns",
    "fedlearn.statistics.histograms": "fedlearn.statistics.column_histograms",
    "fedlearn.statistics.preload": "fedlearn.statistics.statistics_preload",
    "fedlearn.statistics.private": "fedlearn.statistics.noisy_analyses",
    "fedlearn.statistics.regression": "fedlearn.statistics.newton_rounds",
    "fedlearn.statistics.rows": "fedlearn.statistics.statistics_rows",
    "fedlearn.private_trees.exact.cells": "fedlearn.private_trees.exact.column_bins",
    "fedlearn.private_trees.exact.fitted": "fedlearn.private_trees.exact.fitted_boosting",
    "fedlearn.private_trees.exact.growing": "fedlearn.private_trees.exact.exact_growing",
    "fedlearn.private_trees.exact.losses": "fedlearn.private_trees.exact.exact_losses",
    "fedlearn.private_trees.exact.model": "fedlearn.private_trees.exact.exact_model",
    "fedlearn.private_trees.exact.preload": "fedlearn.private_trees.exact.exact_preload",
    "fedlearn.private_trees.exact.rows": "fedlearn.private_trees.exact.exact_row",
    "fedlearn.private_trees.exact.scored": "fedlearn.private_trees.exact.coded_records",
    "fedlearn.private_trees.exact.trees": "fedlearn.private_trees.exact.flat_trees",
    "fedlearn.private_trees.federated.preload": "fedlearn.private_trees.federated.trees_preload",
    "fedlearn.private_trees.federated.rows": "fedlearn.private_trees.federated.tree_rows",
    "fedlearn.private_trees.federated.rounds": "fedlearn.private_trees.federated.public_rounds",
    "fedlearn.private_trees.federated.models.fitted": "fedlearn.private_trees.federated.models.fitted_forest",
    "fedlearn.private_trees.federated.models.tables": "fedlearn.private_trees.federated.models.table_checks",
    "fedlearn.private_trees.sums.partitions": "fedlearn.private_trees.sums.record_partitions",
    "fedlearn.private_trees.sums.parts": "fedlearn.private_trees.sums.boosting_parts",
    "fedlearn.private_trees.sums.rounds": "fedlearn.private_trees.sums.rounds_search",
    "fedlearn.private_trees.classes.counting": "fedlearn.private_trees.classes.class_counting",
    "fedlearn.private_trees.numbers.growing": "fedlearn.private_trees.numbers.forest_growing",
    "fedlearn.private_trees.numbers.trees": "fedlearn.private_trees.numbers.planned_trees",
    "server.features.secure_sums.sums": "server.features.secure_sums.sums_of_attempt",
    "client.learners.sums": "client.learners.sums_learner",
    "strategies.sums": "strategies.sums_strategy",
    "client.received.downlink": "client.received.received_state",
    "fedlearn.wire.downlink": "fedlearn.wire.decoded_state",
    "client.handlers.evaluation": "client.handlers.evaluation_handler",
    "client.handlers.selection": "client.handlers.selection_handler",
    "fedlearn.attacks.examples": "fedlearn.attacks.false_counts",
    "fedlearn.attacks.gaussian": "fedlearn.attacks.noise_attack",
    "client.owner.policy": "client.owner.owner_refusals",
    "client.ledger": "client.node_ledger",
    "fedlearn.kernels.memory": "fedlearn.kernels.mapped_arrays",
    "fedlearn.kernels.preload": "fedlearn.kernels.kernels_preload",
    "fedlearn.algorithms.conformance.low_rank": "fedlearn.algorithms.conformance.adapter_problem",
    "fedlearn.wire.messages": "fedlearn.wire.server_messages",
    "fedlearn.wire.records": "fedlearn.wire.content_records",
    "fedlearn.auditing.nodes.planted": "fedlearn.auditing.nodes.planted_in_clipping",
    "fedlearn.auditing.runs": "fedlearn.auditing.run_auditor",
}
"""Former name of a module, or of a package with all that is in it -> its name today."""

ROOTS = ("fedlearn", *NAMES)
_told: set[str] = set()


def name_today(name: str) -> str:
    """Return the name of a module today; empty if it has not moved.

    >>> name_today("fedlearn.plugins.moved")
    ''
    """
    line = _line_of(name)
    return MOVED[line] + _own(name).removeprefix(line) if line else ""


def _line_of(name: str) -> str:
    """Return the longest name in `MOVED` that is the module's or that of a package around it; empty without one."""
    line = _own(name)
    while line and line not in MOVED:
        line = line.rpartition(".")[0]
    return line


def _own(name: str) -> str:
    """Return the first name of a module: client.app of fedlearn.client.app."""
    own = name.removeprefix(BELOW)
    return own if own.partition(".")[0] in NAMES else name


def names_of(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that has the former name of a module which is now in the package."""

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(import_module(module), name)
        _tell(module.rpartition(".")[0], module)
        return found

    return find


def _tell(former: str, today: str) -> None:
    if former not in _told:
        _told.add(former)
        warn(f"{former} is now {today}; plugins import from fedlearn.extend", DeprecationWarning, stacklevel=3)


class _Moved:
    """Finds modules by their former names: the modules of today, by a second name."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        today = name_today(name) if name.partition(".")[0] in ROOTS else ""
        if not today or is_taken(_own(name)):
            return None
        with claimed(), suppress(ModuleNotFoundError):  # of a package that is not installed, as experiments
            return ModuleSpec(name, self) if exists(today) else None  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        with claimed():
            module = import_module(name_today(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        former, module.__spec__ = module.__spec__.name, module.__spec__.loader_state
        line = _line_of(former)
        _tell(line, MOVED[line])


MOVED_MODULES = _Moved()
