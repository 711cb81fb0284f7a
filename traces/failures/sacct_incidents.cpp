#include "traces/failures/sacct_incidents.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/files/csv.hpp"
#include "traces/jobs/log_time.hpp"

namespace orrery {
namespace {

constexpr const char* kCommand =
    "sacct -a -D -X -P -S 2024-01-01 -o JobID,JobName,User,State,Start,End,NNodes,FailedNode";

/// One run of a job.
struct Run {
  std::int64_t start = 0, end = 0;
  bool ended = false;
  std::string state = {}, failed_node = {};
  std::uint32_t nodes = 0;
};

class SacctTable {
 public:
  SacctTable(const std::string& path, std::string_view text) : reader_(path, text, mark_of(text)) {
    reader_.next_row(fields_);
    header_.assign(fields_.begin(), fields_.end());
    for (const char* const name : {"JobID", "State", "Start", "End", "NNodes"}) {
      if (at(name)) continue;
      reader_.fail_row(fmt::format("expected the column {}, found none; write the log with: {}",
                                   name, kCommand));
    }
  }

  /// Adds the runs of the log to their jobs.
  void read(std::map<std::string, std::vector<Run>>& jobs) {
    while (reader_.next_row(fields_)) {
      if (reader_.is_blank()) continue;
      if (fields_.size() != header_.size()) {
        reader_.fail_row(fmt::format("expected {} fields as in the header, found {}",
                                     header_.size(), fields_.size()));
      }
      const std::string id(text("JobID"));
      const std::string_view start = text("Start");
      const bool began = start != "Unknown" && start != "None" && !start.empty();
      if (id.find('.') != std::string::npos || !began) continue;
      const std::string name = text("JobName").empty() ? id : fmt::format("{}", text("JobName"));
      const std::string user(text("User"));
      jobs[user.empty() ? name : name + " of " + user].push_back(run());
    }
  }

 private:
  static Separator mark_of(std::string_view text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.find('|') != std::string_view::npos) return Separator::bar;
    if (line.find(',') != std::string_view::npos) return Separator::comma;
    return line.find('\t') != std::string_view::npos ? Separator::tab : Separator::blanks;
  }
  std::optional<std::size_t> at(std::string_view name) const {
    const auto found = std::find(header_.begin(), header_.end(), name);
    if (found == header_.end()) return {};
    return static_cast<std::size_t>(found - header_.begin());
  }
  std::string_view text(std::string_view name) const {
    const auto column = at(name);
    return column ? fields_[*column] : std::string_view();
  }
  std::int64_t instant(std::string_view name) const {
    if (const auto found = parse_instant(text(name))) return *found;
    reader_.fail_at_field(*at(name), fmt::format("{}: expected an instant such as "
                                                 "2024-05-17T11:00:58, found '{}'",
                                                 name, text(name)));
  }

  Run run() const {
    Run run{.start = instant("Start"), .state = state(), .failed_node = std::string(failed_node())};
    const std::string_view end = text("End");
    run.ended = end != "Unknown" && !end.empty();
    run.end = run.ended ? instant("End") : run.start;
    if (run.end < run.start) reader_.fail_at_field(*at("End"), "expected an end after the start");
    const std::string_view nodes = text("NNodes");
    const auto [stop, error] =
        std::from_chars(nodes.data(), nodes.data() + nodes.size(), run.nodes);
    if (error != std::errc() || stop != nodes.data() + nodes.size() || run.nodes > 1'000'000) {
      reader_.fail_at_field(*at("NNodes"),
                            fmt::format("NNodes: expected a number of nodes, found '{}'", nodes));
    }
    return run;
  }
  /// "CANCELLED by 1000" is one state.
  std::string state() const {
    std::string state(text("State").substr(0, text("State").find(' ')));
    for (char& each : state) {
      each = each == '_' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
    }
    return state;
  }
  std::string_view failed_node() const {
    const std::string_view node = text("FailedNode");
    return node == "None" || node == "None assigned" ? std::string_view() : node;
  }

  CsvReader reader_;
  std::vector<std::string_view> fields_;
  std::vector<std::string> header_;
};

double node_seconds(const std::vector<Run>& runs) {
  double sum = 0;
  for (const Run& each : runs) sum += static_cast<double>(each.end - each.start) * each.nodes;
  return sum;
}

const std::vector<Run>& chosen(const std::map<std::string, std::vector<Run>>& jobs,
                               const std::string& path, std::string_view text,
                               const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [each, runs] : jobs) {
    names.push_back(each);
    if (each == name || each.starts_with(name + " of ")) {
      if (!name.empty()) return runs;
    }
  }
  if (jobs.empty() || !name.empty()) {
    throw Error(
        place_in(text, path, 1, 1),
        fmt::format("expected runs of {}, found none{}",
                    name.empty() ? "a job" : "the job '" + name + "'", did_you_mean(name, names)));
  }
  const auto largest = std::max_element(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
    return node_seconds(a.second) < node_seconds(b.second);
  });
  return largest->second;
}

/// Returns the index of a node, in the order of appearance.
std::uint32_t index_of(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  const auto index = static_cast<std::uint32_t>(found - names.begin());
  if (found == names.end()) names.push_back(name);
  return index;
}

IncidentLog incidents_of(std::vector<Run> runs) {
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Run& a, const Run& b) { return a.start < b.start; });
  IncidentLog log{.format = "sacct"};
  const std::int64_t begin = runs.front().start;
  std::int64_t end = begin;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    log.nodes = std::max(log.nodes, run.nodes);
    end = std::max({end, run.end, run.start});
    if (i + 1 == runs.size() || !run.ended || runs[i + 1].start < run.end) continue;
    Incident incident{.at_s = static_cast<double>(run.end - begin), .cause = run.state};
    const bool of_node = run.state == "node fail" || run.state == "boot fail";
    incident.part = of_node ? FailingPart::node : FailingPart::job;
    if (of_node && !run.failed_node.empty()) {
      incident.index = index_of(log.node_names, run.failed_node);
    }
    incident.down_s = static_cast<double>(runs[i + 1].start - run.end);
    log.incidents.push_back(std::move(incident));
  }
  log.length_s = static_cast<double>(end - begin);
  return log;
}

}  // namespace

IncidentLog read_sacct_incidents(const std::string& path, std::string_view text,
                                 const IncidentOptions& options) {
  std::map<std::string, std::vector<Run>> jobs;
  SacctTable(path, text).read(jobs);
  IncidentLog log = incidents_of(chosen(jobs, path, text, options.job));
  if (options.length_s) log.length_s = std::max(log.length_s, *options.length_s);
  if (jobs.size() > 1) {
    log.notes.push_back(
        fmt::format("{} other jobs of the log are left out; --job chooses one.", jobs.size() - 1));
  }
  return log;
}

}  // namespace orrery
