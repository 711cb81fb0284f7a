#include "cli/shared/program_status.hpp"

#include <filesystem>
#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "live/run/files/run_files.hpp"
#include "live/run/operator/orders.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kMostLines = 200;
constexpr double kInterval_s = 1;  ///< time between two states
constexpr double kSoon_s = 0.1;    ///< time between two states if a line is new

/// Returns the prefix of the folder without the last character, which TemporaryFolder adds.
std::string folder_name() {
  std::string name = live::kRunPrefix;
  name.pop_back();
  return name;
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

ProgramStatus::ProgramStatus(std::string name, std::string mode, std::vector<std::string> policies)
    : name_(std::move(name)),
      mode_(std::move(mode)),
      policies_(std::move(policies)),
      folder_(folder_name(), live::run_parent()),
      began_s_(live::monotonic_s()) {
  std::ofstream(folder_.path_of(live::kRunMarker)) << live::kRunMarked;
}

void ProgramStatus::add_line(const std::string& what) {
  lines_.push_back({++line_count_, live::monotonic_s() - began_s_, what});
  if (lines_.size() > kMostLines) lines_.pop_front();
}

std::string ProgramStatus::text_of(const live::ProgramRun* run) const {
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
  }
  out["events"] = ordered_json::array();
  for (const Line& line : lines_) {
    out["events"].push_back({{"number", line.number}, {"at_s", line.at_s}, {"what", line.what}});
  }
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void ProgramStatus::publish_status(const live::ProgramRun* run) {
  const double now_s = live::monotonic_s();
  if (now_s - published_s_ < (line_count_ > shown_count_ ? kSoon_s : kInterval_s)) return;
  published_s_ = now_s;
  shown_count_ = line_count_;
  const std::string path = folder_.path_of(live::kStatusFile), fresh = path + ".new";
  std::ofstream(fresh) << text_of(run) << '\n';
  std::error_code ignored;
  fs::rename(fresh, path, ignored);
}

std::vector<ParameterSet> ProgramStatus::drain_parameters() {
  std::vector<ParameterSet> parameters;
  const double now_s = live::monotonic_s();
  if (now_s - looked_s_ < live::kLookMs / 1000.0) return parameters;
  looked_s_ = now_s;
  for (live::Order& order : live::read_orders(folder_.path_of(""))) {
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
  if (is_stopped_ || !fs::exists(folder_.path_of(live::kStopFile), unknown)) return false;
  is_stopped_ = true;
  return true;
}

}  // namespace orrery::cli
