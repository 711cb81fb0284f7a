// Subcommands of `orrery`, one file each. Every add_*() declares a subcommand with its options; the
// parser stores the action of the subcommand that the user chose. Called by main() only, on one
// thread.
#pragma once

#include <functional>

#include <CLI/App.hpp>

namespace orrery::cli {

/// Action of the chosen subcommand; returns the exit code, throws orrery::Error.
using Action = std::function<int()>;

void add_simulate(CLI::App& app, Action& chosen);
void add_live(CLI::App& app, Action& chosen);
void add_compare_policies(CLI::App& app, Action& chosen);
void add_rehearse(CLI::App& app, Action& chosen);
void add_run(CLI::App& app, Action& chosen);
void add_replay(CLI::App& app, Action& chosen);
void add_jobs(CLI::App& app, Action& chosen);
void add_twin(CLI::App& app, Action& chosen);  // twin jobs, twin slurm
void add_explain(CLI::App& app, Action& chosen);
void add_pack(CLI::App& app, Action& chosen);
void add_predict(CLI::App& app, Action& chosen);
void add_layouts(CLI::App& app, Action& chosen);
void add_plan(CLI::App& app, Action& chosen);
void add_list(CLI::App& app, Action& chosen);
void add_describe(CLI::App& app, Action& chosen);
void add_check(CLI::App& app, Action& chosen);
void add_import(CLI::App& app, Action& chosen);
void add_import_cluster(CLI::App& import, Action& chosen);  // subcommand of import
void add_import_pytorch(CLI::App& import, Action& chosen);  // subcommand of import
void add_convert(CLI::App& app, Action& chosen);
void add_export(CLI::App& app, Action& chosen);
void add_fit(CLI::App& app, Action& chosen);
void add_schema(CLI::App& app, Action& chosen);
void add_calibrate(CLI::App& app, Action& chosen);
void add_compare(CLI::App& app, Action& chosen);
void add_doctor(CLI::App& app, Action& chosen);
void add_new(CLI::App& app, Action& chosen);
void add_cluster(CLI::App& app, Action& chosen);  // cluster slurm
void add_runs(CLI::App& app, Action& chosen);
void add_status(CLI::App& app, Action& chosen);
void add_attach(CLI::App& app, Action& chosen);
void add_set(CLI::App& app, Action& chosen);
void add_drain(CLI::App& app, Action& chosen);
void add_stop(CLI::App& app, Action& chosen);

}  // namespace orrery::cli
