#include "cli/shared/program_status.hpp"

#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "live/run/files/run_files.hpp"
#include "live/run/operator/orders.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

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

ProgramStatus::ProgramStatus(std::string name, std::string mode, std::vector<std::string> policies)
    : name_(std::move(name)),
      mode_(std::move(mode)),
      policies_(std::move(policies)),
      began_s_(live::monotonic_s()),
      file_(folder_.path(), {}) {}

void ProgramStatus::add_line(const std::string& what) {
  file_.add_line(to_nanos(live::monotonic_s() - began_s_), what);
}

ordered_json ProgramStatus::fields_of(const live::ProgramRun* run) const {
  ordered_json out{{"scenario", name_}, {"mode", mode_.empty() ? "no policies" : mode_}};
  out["phase"] = run != nullptr ? "training" : "starting";
  out["elapsed_s"] = live::monotonic_s() - began_s_;
  out["keeps_checkpoints"] = false;  // `orrery stop --checkpoint` has nobody to ask
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
  if (file_.is_due()) file_.publish_status(fields_of(run), {});
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

bool ProgramStatus::drain_stop() {
  std::error_code unknown;
  if (is_stopped_ || !fs::exists(folder_.path() + "/" + live::kStopFile, unknown)) return false;
  is_stopped_ = true;
  return true;
}

}  // namespace orrery::cli
