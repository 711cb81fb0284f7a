#include "traces/failures/incident_log.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/failures/kubernetes_incidents.hpp"
#include "traces/failures/sacct_incidents.hpp"
#include "traces/files/csv_table.hpp"

namespace orrery {
namespace {

constexpr double kMost_s = 9e9;

double number_in(const CsvTable& rows, std::string_view column, double least, double most) {
  const std::string_view given = rows.text(column);
  double value = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  const bool whole = error == std::errc() && end == given.data() + given.size();
  if (whole && value >= least && value <= most) return value;
  rows.fail_at(column, fmt::format("{}: expected a number from {} to {}, got '{}'", column, least,
                                   most, given));
}

std::optional<double> time_in(const CsvTable& rows, std::string_view column) {
  if (rows.text(column).empty()) return {};
  return number_in(rows, column, 0, kMost_s);
}

void read_effect(const CsvTable& rows, Incident& incident) {
  const bool job = incident.part == FailingPart::job;
  const std::string_view named = rows.text("effect");
  const std::optional<FailureEffect> effect = recorded_effect(named, job);
  if (!effect) {
    rows.fail_at("effect",
                 fmt::format("effect: expected {} for a {}, got '{}'",
                             job ? "kill or stop" : "down or rate", name_of(incident.part), named));
  }
  incident.stops = effect == FailureEffect::stop;
  if (effect == FailureEffect::rate) incident.rate = number_in(rows, "rate", 0.001, 1);
}

/// The job was down for restart_s after the detection; without these columns, as long as the part.
void read_times(const CsvTable& rows, Incident& incident) {
  incident.repair_s = time_in(rows, "lasts_s");
  if (incident.rate) return;
  incident.detection_s = time_in(rows, "detection_s");
  const std::optional<double> restart = time_in(rows, "restart_s");
  if (restart) {
    incident.down_s = *restart + incident.detection_s.value_or(0);
  } else if (incident.repair_s) {
    incident.down_s = *incident.repair_s;
  } else {
    rows.fail_at("lasts_s",
                 "expected the time until the job worked again in restart_s, or in lasts_s, found "
                 "neither");
  }
  if (incident.part == FailingPart::job || !restart) incident.repair_s.reset();
}

Incident incident_in(const CsvTable& rows) {
  Incident incident;
  incident.at_s = number_in(rows, "time_s", 0, kMost_s);
  incident.cause = rows.text("cause");
  if (incident.cause.empty()) rows.fail_at("cause", "expected the name of a cause, found nothing");
  const std::optional<FailingPart> part = recorded_part(rows.text("part"));
  if (!part) {
    rows.fail_at("part", fmt::format("part: expected job, rank, node, gpu, nic, port, link, cable, "
                                     "leaf, spine, plane or storage, got '{}'",
                                     rows.text("part")));
  }
  incident.part = *part;
  if (part != FailingPart::job && !rows.text("index").empty()) {
    incident.index = static_cast<std::uint32_t>(number_in(rows, "index", 0, 4e9));
  }
  read_effect(rows, incident);
  read_times(rows, incident);
  return incident;
}

IncidentLog read_csv(const std::string& path, std::string_view text,
                     const IncidentOptions& options) {
  CsvTable rows(path, text, "a CSV of incidents",
                {"time_s", "cause", "part", "index", "effect", "rate", "lasts_s"});
  IncidentLog log{.format = "csv"};
  while (rows.next()) {
    log.incidents.push_back(incident_in(rows));
    const Incident& newest = log.incidents.back();
    if (options.length_s && newest.at_s > *options.length_s) {
      rows.fail_at("time_s",
                   fmt::format("expected an incident within the {} s of --time, found one "
                               "at {} s",
                               *options.length_s, newest.at_s));
    }
    log.length_s = std::max(log.length_s, newest.at_s);
  }
  if (options.length_s) {
    log.length_s = *options.length_s;
  } else {
    log.notes.emplace_back(
        "The log is taken to end with its last incident; --time gives its length.");
  }
  return log;
}

}  // namespace

IncidentLog parse_incidents(const std::string& path, std::string_view text,
                            const IncidentOptions& options) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const std::string_view line = text.substr(0, text.find('\n'));
  IncidentLog log;
  if (first != std::string_view::npos && text[first] == '{') {
    log = read_kubernetes_incidents(path, text, options);
  } else if (line.find("JobID") != std::string_view::npos) {
    log = read_sacct_incidents(path, text, options);
  } else if (line.find("time_s") != std::string_view::npos) {
    log = read_csv(path, text, options);
  } else {
    throw Error(place_in(text, path, 1, 1),
                "expected a CSV of incidents (time_s,cause,part,index,effect,rate,lasts_s), the "
                "output of sacct with the column JobID, or Kubernetes events as JSON (kubectl get "
                "events -A -o json), found another file");
  }
  std::stable_sort(log.incidents.begin(), log.incidents.end(),
                   [](const Incident& a, const Incident& b) { return a.at_s < b.at_s; });
  return log;
}

IncidentLog load_incidents(const std::string& path, const IncidentOptions& options) {
  return parse_incidents(path, read_packed_text(path), options);
}

}  // namespace orrery
