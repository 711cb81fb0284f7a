#include "cli/shared/twin_session.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "cli/shared/output_file.hpp"
#include "core/error.hpp"

namespace orrery::cli {

void add_tables(CLI::App& command, std::string& out) {
  command
      .add_option("--out", out,
                  "write tables: forecasts.csv (forecasts beside their outcomes), policies.csv "
                  "(goals at each forecast), score.csv and now.csv (newest forecasts)")
      ->type_name("DIR");
}

std::vector<std::string> joined(std::vector<std::string> policies,
                                const std::vector<std::string>& candidates) {
  for (const std::string& each : candidates) {
    if (std::find(policies.begin(), policies.end(), each) == policies.end()) {
      policies.push_back(each);
    }
  }
  return policies;
}

DecisionTimes times_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&seconds](double share) {
    return 1e3 * seconds[static_cast<std::size_t>(share * static_cast<double>(seconds.size() - 1))];
  };
  return {at(0.5), at(0.99), at(1)};
}

TwinRecord::TwinRecord(const std::string& out, int decimals) : out_(out), decimals_(decimals) {
  if (out_.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(out_, failed);
  if (failed) {
    throw Error(ErrorKind::environment,
                fmt::format("cannot make the folder {}: {}", out_, failed.message()));
  }
  forecasts_.open(path_of("forecasts.csv"));
  append_text(forecasts_, "forecasts.csv", sim::known_forecasts_header());
  policies_.open(path_of("policies.csv"));
  append_text(policies_, "policies.csv", "made_s,policy,goal,value\n");
}

std::string TwinRecord::path_of(const char* file) const {
  return (std::filesystem::path(out_) / file).string();
}

void TwinRecord::append_text(std::ofstream& file, const char* name, const std::string& text) const {
  if (file << text && file.flush()) return;
  throw Error(ErrorKind::environment, fmt::format("cannot write {}", path_of(name)));
}

void TwinRecord::append_known() {
  append_text(forecasts_, "forecasts.csv", known_);
  known_.clear();
}

void TwinRecord::add_goals(Nanos made, const std::vector<PolicyGoal>& goals) {
  if (out_.empty()) return;
  append_known();
  std::string text;
  for (const PolicyGoal& each : goals) {
    fmt::format_to(std::back_inserter(text), "{:.{}f},{},{},{}\n", to_seconds(made), decimals_,
                   each.policy, each.goal,
                   std::isnan(each.value) ? "" : fmt::format("{:.6g}", each.value));
  }
  append_text(policies_, "policies.csv", text);
}

void TwinRecord::write_now(const TwinFigures& figures) const {
  if (out_.empty()) return;
  write_file(path_of("now.csv"), now_table(figures.now, figures.costs, decimals_));
}

void TwinRecord::write_score(const std::string& score) {
  if (out_.empty()) return;
  append_known();
  write_file(path_of("score.csv"), score);
}

}  // namespace orrery::cli
