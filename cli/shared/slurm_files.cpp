#include "cli/shared/slurm_files.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_writer.hpp"
#include "policies/parameters.pb.h"
#include "traces/files/csv.hpp"
#include "traces/jobs/slurm_rules.hpp"

namespace orrery::cli {
namespace {

constexpr std::string_view kPolicy = "multifactor";  // the policy that has these rules

bool is_yaml_file(const std::string& path) {
  const std::filesystem::path extension = std::filesystem::path(path).extension();
  return extension == ".yaml" || extension == ".yml";
}

/// Adds the parameters to those of --set, which are later and therefore hold.
void add_parameters(const MultifactorParameters& parameters, JobReplay& replay) {
  const nlohmann::ordered_json given = to_yaml_json(parameters);
  std::vector<std::string> all;
  for (const auto& [key, value] : given.items()) {
    all.push_back(fmt::format("{}.{}={}", kPolicy, key,
                              value.is_string() ? value.get<std::string>() : value.dump()));
  }
  all.insert(all.end(), replay.set().begin(), replay.set().end());
  replay.clear_set();
  for (std::string& each : all) replay.add_set(std::move(each));
}

MultifactorParameters read_qos(const std::string& path) {
  MultifactorParameters parameters;
  for (const SlurmQos& each : parse_slurm_qos(path, read_packed_text(path))) {
    MultifactorParameters::Qos& qos = *parameters.add_qos();
    qos.set_name(each.name);
    qos.set_priority(each.priority);
    if (each.gpus) qos.set_gpus(*each.gpus);
    if (each.gpus_per_user) qos.set_gpus_per_user(*each.gpus_per_user);
    for (const std::string& other : each.preempts) qos.add_preempts(other);
  }
  return parameters;
}

/// Sets the nodes of a reservation. Returns false if the cluster of the replay has none of them.
bool set_nodes(const SlurmReservation& from, const std::map<std::string, std::uint32_t>& numbers,
               std::uint32_t gpus_per_node, MultifactorParameters::Reservation& to) {
  if (numbers.empty()) {
    to.set_gpus(static_cast<std::uint32_t>(from.nodes.size()) * gpus_per_node);
    return true;
  }
  for (const std::string& name : from.nodes) {
    if (const auto found = numbers.find(name); found != numbers.end()) to.add_nodes(found->second);
  }
  return to.nodes_size() > 0;
}

MultifactorParameters read_reservations(const std::string& path, const JobLog& log,
                                        const std::vector<std::string>& node_names,
                                        const JobReplay& replay) {
  if (!log.origin_s) {
    throw Error(SourcePlace{.file = replay.trace(), .line_text = ""},
                "--reservations: expected a log with dates beside reservations of Slurm, found "
                "times that count from the log's own begin: give the log of sacct, or write the "
                "reservations as YAML, in seconds from the first submission");
  }
  std::map<std::string, std::uint32_t> numbers;
  for (const std::string& name : node_names) {
    numbers.try_emplace(name, static_cast<std::uint32_t>(numbers.size()));
  }
  MultifactorParameters parameters;
  for (const SlurmReservation& each : parse_slurm_reservations(path, read_packed_text(path))) {
    const std::int64_t begin_s = std::max<std::int64_t>(0, each.begin_s - *log.origin_s);
    const std::int64_t end_s = each.end_s - *log.origin_s;
    if (end_s <= 0) continue;
    MultifactorParameters::Reservation reservation;
    if (!set_nodes(each, numbers, replay.gpus_per_node(), reservation)) continue;
    reservation.set_name(each.name);
    reservation.set_begin(begin_s * kNanosPerSecond);
    reservation.set_end(end_s * kNanosPerSecond);
    for (const std::string& user : each.users) reservation.add_users(user);
    for (const std::string& account : each.accounts) reservation.add_vcs(account);
    *parameters.add_reservations() = std::move(reservation);
  }
  return parameters;
}

MultifactorParameters read_yaml(const std::string& path) {
  MultifactorParameters parameters;
  load_yaml_file(path, parameters);
  return parameters;
}

/// Throws bad_input for a log without any QOS.
void check_qos(const JobLog& log, const JobReplay& replay) {
  const bool known = std::any_of(log.jobs.begin(), log.jobs.end(),
                                 [](const TraceJob& job) { return !job.qos.empty(); });
  if (known) return;
  throw Error(SourcePlace{.file = replay.trace(), .line_text = ""},
              fmt::format("--qos: expected jobs with a QOS (column QOS of sacct, qos of Orrery's "
                          "own columns), found none in {} jobs: add QOS to the columns of sacct",
                          log.jobs.size()));
}

}  // namespace

void declare_slurm_files(CLI::App& command, SlurmFiles& files) {
  command
      .add_option("--qos", files.qos,
                  "QOS of the jobs, for the policy multifactor: the output of sacctmgr show qos "
                  "-P, or YAML with its parameters")
      ->type_name("FILE");
  command
      .add_option("--reservations", files.reservations,
                  "reservations of nodes, for the policy multifactor: the output of scontrol show "
                  "reservation, or YAML with its parameters")
      ->type_name("FILE");
}

void add_slurm_files(const SlurmFiles& files, const JobLog& log,
                     const std::vector<std::string>& node_names, JobReplay& replay) {
  if (replay.policy() != kPolicy) return;
  if (!files.reservations.empty()) {
    add_parameters(is_yaml_file(files.reservations)
                       ? read_yaml(files.reservations)
                       : read_reservations(files.reservations, log, node_names, replay),
                   replay);
  }
  if (files.qos.empty()) return;
  check_qos(log, replay);
  add_parameters(is_yaml_file(files.qos) ? read_yaml(files.qos) : read_qos(files.qos), replay);
}

void check_slurm_files(const SlurmFiles& files, const std::vector<std::string>& policies) {
  if (files.qos.empty() && files.reservations.empty()) return;
  if (std::find(policies.begin(), policies.end(), kPolicy) != policies.end()) return;
  throw Error(ErrorKind::usage,
              fmt::format("{}: expected the policy {}, which has QOS and reservations, found {}: "
                          "give --policy {}",
                          files.qos.empty() ? "--reservations" : "--qos", kPolicy,
                          fmt::join(policies, ", "), kPolicy));
}

}  // namespace orrery::cli
