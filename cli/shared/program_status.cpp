#include "cli/shared/program_status.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "live/run/files/run_files.hpp"
#include "live/run/operator/orders.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Returns true if the program has named a folder whose snapshots outlive the run.
bool keeps_snapshots(const live::ProgramRun* run) {
  return run != nullptr && !run->run_book().snapshot_folder().empty();
}

ordered_json ranks_json(const live::ProgramRun& run) {
  const live::RunBook& book = run.run_book();
  ordered_json out = ordered_json::array();
  for (std::size_t rank = 0; rank < book.ranks(); ++rank) {
    const char* state = "working";
    if (book.has_ended(rank)) state = book.is_lost(rank) ? "lost" : "ended";
    out.push_back({{"rank", rank},
                   {"state", state},
                   {"pid", book.has_ended(rank) ? 0 : run.process_id(rank)},
                   {"step", book.steps_of(rank)},
                   {"micro_batches", 0}});
  }
  return out;
}

}  // namespace

nlohmann::ordered_json groups_json(const std::vector<live::GroupKind>& kinds) {
  ordered_json out = ordered_json::array();
  for (const live::GroupKind& kind : kinds) {
    out.push_back({{"name", kind.name},
                   {"ranks", kind.ranks},
                   {"groups", kind.keys.size()},
                   {"uncarried_operation", nullptr}});
    if (!kind.uncarried_operation.empty()) {
      out.back()["uncarried_operation"] = kind.uncarried_operation;
    }
  }
  return out;
}

ProgramStatus::ProgramStatus(std::string name, std::string mode, std::vector<std::string> policies,
                             std::string metrics, const std::string& taken, double began_s)
    : name_(std::move(name)),
      mode_(std::move(mode)),
      policies_(std::move(policies)),
      folder_(taken.empty() ? ListedFolder() : ListedFolder(taken)),
      began_s_(taken.empty() ? live::monotonic_s() : began_s),
      file_(folder_.path(), std::move(metrics)) {}

void ProgramStatus::add_line(const std::string& what) {
  file_.add_line(to_nanos(live::monotonic_s() - began_s_), what);
}

ordered_json ProgramStatus::fields_of(const live::ProgramRun* run) const {
  ordered_json out{{"scenario", name_}, {"mode", mode_.empty() ? "no policies" : mode_}};
  out["phase"] = run != nullptr ? "training" : "starting";
  out["elapsed_s"] = live::monotonic_s() - began_s_;
  out["keeps_checkpoints"] = keeps_snapshots(run);
  out["checkpoint_remedy"] =
      "call orrery.torch.state(folder=PATH) in the program, whose snapshots outlive the run";
  out["policies"] = policies_;
  if (meter_ != nullptr) {
    const std::optional<double> waiting_s = meter_->waiting_s();
    out["policy_time_s"] = meter_->total_s();
    out["policy_waiting_s"] = nullptr;
    if (waiting_s) out["policy_waiting_s"] = *waiting_s;
    out["policy_asked"] = waiting_s ? meter_->name() : std::string();
  }
  if (run != nullptr) {
    const live::RunBook& book = run->run_book();
    out["step"] = book.steps();
    out["step_time_s"] = book.median_step_s().value_or(0);
    out["losses"] = book.losses().size();
    out["ranks_missing"] = book.missing_ranks().size();
    if (book.newest_snapshot() > 0) out["saved_step"] = book.newest_snapshot();
    out["ranks"] = ranks_json(*run);
    out["groups"] = groups_json(run->groups());
  }
  return out;
}

void ProgramStatus::publish_status(const live::ProgramRun* run) {
  // An operator may stop the run with a checkpoint as soon as it has a folder for it.
  const bool keeps = keeps_snapshots(run);
  if (!file_.is_due() && keeps == keeps_snapshots_) return;
  keeps_snapshots_ = keeps;
  file_.publish_status(fields_of(run), file_.has_metrics() ? metrics_of(run) : "");
}

std::string ProgramStatus::metrics_of(const live::ProgramRun* run) const {
  const std::string labels = fmt::format("program=\"{}\"", live::metric_label(name_));
  std::string out;
  const auto add = [&](const char* name, const char* kind, const char* help, auto value) {
    out += live::metric_family(std::string("program_") + name, kind, help, labels,
                               static_cast<double>(value));
  };
  add("elapsed_seconds", "gauge", "Time since the start of the run.",
      live::monotonic_s() - began_s_);
  if (meter_ != nullptr) {
    add("policy_seconds_total", "counter", "Time of the calls of the policies.", meter_->total_s());
  }
  if (run == nullptr) return out;
  const live::RunBook& book = run->run_book();
  add("steps_total", "counter", "Optimizer steps since the last restart.", book.steps());
  add("step_seconds", "gauge", "Median duration of a step.", book.median_step_s().value_or(0));
  add("input_share", "gauge", "Share of the time in steps that the ranks spend in data loaders.",
      book.input_share().value_or(0));
  add("ranks", "gauge", "Ranks at the start.", book.ranks());
  add("ranks_working", "gauge", "Ranks that train.", book.members().size());
  add("losses_total", "counter", "Ranks that were lost since the last restart.",
      book.losses().size());
  add("replacements_total", "counter", "Processes that were started for lost ranks.",
      run->replacements());
  add("sent_bytes_total", "counter", "Bytes that all ranks have sent for gradients.",
      book.sent_bytes());
  add("snapshot_step", "gauge", "Step of the newest snapshot; 0: none.", book.newest_snapshot());
  return out;
}

std::vector<ParameterSet> ProgramStatus::drain_parameters() {
  std::vector<ParameterSet> parameters;
  const double now_s = live::monotonic_s();
  if (now_s - looked_s_ < live::kLookMs / 1000.0) return parameters;
  looked_s_ = now_s;
  for (live::Order& order : live::read_orders(folder_.path())) {
    std::error_code ignored;
    fs::remove(order.file, ignored);
    if (order.set) {
      parameters.push_back(std::move(*order.set));
    } else {
      const std::string part = order.removal ? part_name(order.removal->part) + ": " : "";
      add_line(fmt::format("{}{}expected a parameter to set, which is the only order for a program",
                           live::kOrderRefused, part));
    }
  }
  return parameters;
}

int ProgramStatus::obey_stop(live::ProgramRun& run) {
  const std::string path = folder_.path() + "/" + live::kStopFile;
  std::error_code unknown;
  if (saves_ && !run.is_saving_or_ending()) {
    fs::remove(path, unknown);
    is_stopped_ = saves_ = false;
  }
  if (is_stopped_ || !fs::exists(path, unknown)) return 0;
  std::string how;
  std::getline(std::ifstream(path), how);
  if (how.empty()) return 0;  // not written yet
  is_stopped_ = true;
  saves_ = how == "checkpoint";
  if (!saves_) return SIGTERM;
  run.save_and_end();
  return 0;
}

}  // namespace orrery::cli
