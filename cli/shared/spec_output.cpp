#include "cli/shared/spec_output.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/files/file_kind.hpp"
#include "core/schema/yaml_loader.hpp"
#include "sim/planning/recorded_facts.hpp"
#include "topologies/builder.hpp"
#include "traces/files/csv.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::cli {
namespace {

using sim::SpecFinding;
using sim::SpecGrade;

/// Returns true if the first bytes of the file contain a zero byte or other control characters, as
/// a log has and YAML has not.
bool is_binary(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  char head[64] = {};
  in.read(head, sizeof head);
  return std::any_of(head, head + in.gcount(), [](char c) {
    return (c >= 0 && c < ' ' && c != '\n' && c != '\r' && c != '\t') || c == 127;
  });
}

/// Returns true if the text is a topology and no scenario.
bool is_topology(const std::string& text, const std::string& file) {
  Topology topology;
  return check_yaml(text, file, topology).size() < check_scenario(text, file).size();
}

sim::SpecReport grade_log(const std::string& file) {
  const sim::RecordedTraining training = sim::read_training(file);
  sim::SpecReport report = sim::grade_scenario(training.scenario);
  report.subject = "recorded run";
  std::vector<SpecFinding> facts = sim::grade_facts(training.facts);
  report.findings.insert(report.findings.begin(), facts.begin(), facts.end());
  return report;
}

nlohmann::ordered_json finding_json(const SpecFinding& finding) {
  using Json = nlohmann::ordered_json;
  return {{"rule", finding.rule},
          {"grade", name_of(finding.grade)},
          {"expected", finding.expected},
          {"found", finding.found},
          {"fix", finding.fix.empty() ? Json() : Json(finding.fix)},
          {"set", finding.set},
          {"gain", finding.gain ? Json(*finding.gain) : Json()},
          {"no_gain", finding.gain ? Json() : Json(finding.no_gain)}};
}

void print_json(const std::string& file, const sim::SpecReport& report) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const SpecFinding& each : report.findings) findings.push_back(finding_json(each));
  const nlohmann::ordered_json whole{{"file", file},
                                     {"spec_version", sim::kSpecVersion},
                                     {"subject", report.subject},
                                     {"basis", report.basis},
                                     {"passed", report.count_of(SpecGrade::pass)},
                                     {"failed", report.count_of(SpecGrade::fail)},
                                     {"unknown", report.count_of(SpecGrade::unknown)},
                                     {"rules", std::move(findings)}};
  fmt::print("{}\n", whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_finding(const SpecFinding& finding) {
  fmt::print("{:<8} {:<21} expected {}; found {}\n", name_of(finding.grade), finding.rule,
             finding.expected, finding.found);
  if (finding.grade != SpecGrade::fail) return;
  fmt::print("{:>30} fix: {}", "", finding.fix.empty() ? "none known" : finding.fix);
  if (finding.gain) {
    fmt::print("; predicted gain {:+.2f}% of the time\n", 100 * *finding.gain);
  } else {
    fmt::print("; no predicted gain: {}\n", finding.no_gain);
  }
  for (const std::string& each : finding.set) fmt::print("{:>30}   --set '{}'\n", "", each);
}

}  // namespace

sim::SpecReport grade_file(const RunOptions& options) {
  const std::string& file = options.file;
  if (is_file(file) && is_binary(file)) return grade_log(file);
  if (is_file(file) && options.overrides.empty()) {
    const std::string text = read_packed_text(file);
    if (is_topology(text, file)) {
      Topology topology;
      const SourceMap places = load_yaml(text, file, topology);
      resolve(topology, places);
      return sim::grade_cluster(build_cluster(topology, places));
    }
  }
  return sim::grade_scenario(options.load().scenario);
}

void print_grades(const std::string& file, const sim::SpecReport& report, bool json) {
  if (json) return print_json(file, report);
  fmt::print("{}: {} under the training spec {}: {} rules pass, {} fail, {} unknown\n", file,
             report.subject, sim::kSpecVersion, report.count_of(SpecGrade::pass),
             report.count_of(SpecGrade::fail), report.count_of(SpecGrade::unknown));
  for (const SpecFinding& each : report.findings) print_finding(each);
  if (!report.basis.empty()) fmt::print("gains: {}\n", report.basis);
}

}  // namespace orrery::cli
