#include "cli/shared/measured_program.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/schema/yaml_writer.hpp"
#include "live/programs/calibration/example_recording.hpp"
#include "traces/chakra/recording.hpp"
#include "traces/scenario.pb.h"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

/// Returns this machine as the program's ranks see it: nodes of one processor each behind a switch,
/// with the fitted links. Its other figures have no effect on measured times.
Topology machine_of(const live::MeasuredStep& measured, std::uint32_t ranks) {
  Topology topology;
  topology.set_nodes(ranks);
  NodeSpec& node = *topology.mutable_node();
  node.set_gpu("this machine");
  node.set_gpus_per_node(1);
  node.set_nics_per_node(1);
  FabricSpec& fabric = *topology.mutable_fabric();
  fabric.set_kind("flat");
  fabric.set_line_rate(true);
  fabric.set_nvlink_latency(0);
  fabric.set_hop_latency(0);
  const live::FittedLinks links = measured.links.value_or(live::FittedLinks{1e-4, 1e10, 0});
  node.set_nic_bandwidth(links.bandwidth);
  node.set_host_power(0);
  fabric.set_nic_latency(links.latency_s);
  GpuSpec& processor = *topology.add_gpus();
  processor.set_name("this machine");
  processor.set_memory(1e12);
  processor.set_memory_bandwidth(1e10);
  processor.set_fp32(1e11);
  processor.set_bf16(1e11);
  processor.set_pcie(1e12);
  processor.set_idle_power(1);
  processor.set_max_power(1);
  processor.add_source(
      "rates, memory and power are placeholders: all times of the program are "
      "measured");
  return topology;
}

/// Returns the first operation of a step through which no loss can be carried, because its data
/// belongs to one rank; empty if there is none.
std::string uncarried_operation(const RecordedStep& step) {
  for (const RecordedOp& op : step.ops()) {
    for (const char* const each : {"reduce_scatter", "all_to_all"}) {
      if (op.collective() == each) return each;
    }
  }
  return "";
}

std::string links_text(const live::MeasuredStep& measured) {
  if (!measured.links) return "no operation of a group: the links are placeholders";
  return fmt::format(
      "a round {:.0f} us, {:.0f} MB/s; the fitted times are off by {:.0f}% on "
      "average",
      measured.links->latency_s * 1e6, measured.links->bandwidth / 1e6,
      100 * measured.links->error);
}

/// Returns the scenario. Its job is written here: the schema's writer would write zeros for the
/// values that follow from the recording.
std::string scenario_text(const live::MeasuredStep& measured, const MeasuredOrigin& origin,
                          const fs::path& prefix) {
  Scenario scenario;
  scenario.set_name(prefix.filename().string());
  scenario.set_description(origin.description);
  *scenario.mutable_cluster() = machine_of(measured, measured.step.ranks());
  scenario.set_elastic(true);
  // Responses of `orrery run` without a policy: tier T0, or the end at a loss.
  const bool ends = !uncarried_operation(measured.step).empty();
  scenario.mutable_survival()->set_on_loss(ends ? "hold" : "go-on");
  scenario.mutable_survival()->set_lost_work("dropped");
  scenario.mutable_run()->set_steps(100);
  std::string program = "trace: " + nlohmann::json(prefix.filename().string()).dump();
  if (!origin.command.empty()) program += ", command: " + nlohmann::json(origin.command).dump();
  if (!origin.sums.empty()) program += ", sums: " + origin.sums;
  std::string text = to_yaml_file(scenario) + fmt::format("job:\n  program: {{{}}}\n", program);
  if (origin.examples == 0) return text;
  // `orrery run` deals a rank at most twice its batch.
  return text + fmt::format("  global_batch: {}\n  max_share: 2\n",
                            origin.examples * measured.step.ranks());
}

/// Returns the table of each rank's own times; empty for one rank.
std::string ranks_text(const std::vector<live::RankTimes>& ranks) {
  if (ranks.size() < 2) return "";
  std::string text =
      fmt::format("{:<13}{:>12}{:>12}{:>12}\n", "rank", "compute", "input", "waiting");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const live::RankTimes& own = ranks[rank];
    text += fmt::format("{:<13}{:>9.2f} ms{:>9.2f} ms{:>9.2f} ms\n", rank, own.compute_s * 1e3,
                        own.input_s * 1e3, own.exchange_s * 1e3);
  }
  return text;
}

std::string summary(const live::MeasuredStep& measured) {
  std::uint64_t collectives = 0;
  double bytes = 0;
  for (const RecordedOp& op : measured.step.ops()) {
    collectives += op.collective().empty() ? 0 : 1;
    bytes += op.bytes();
  }
  const std::string uncarried = uncarried_operation(measured.step);
  return fmt::format(
      "ranks        {}\n"
      "step         {:.2f} ms, mean of {} of {} steps\n"
      "compute      {:.2f} ms, {} backward pass{}\n"
      "input        {:.2f} ms\n"
      "exchange     {:.2f} ms beside that, {} operations of {:.2f} MiB\n"
      "links        {}\n"
      "memory       {:.2f} GiB a rank at the peak\n"
      "lost ranks   {}\n",
      measured.step.ranks(), measured.duration_s * 1e3, measured.used_steps, measured.seen_steps,
      measured.compute_s * 1e3, measured.step.micro_batches(),
      measured.step.micro_batches() == 1 ? "" : "es", measured.input_s * 1e3,
      measured.exchange_s * 1e3, collectives, bytes / (1 << 20), links_text(measured),
      measured.step.peak_bytes() / (1 << 30),
      uncarried.empty()
          ? "the others go on"
          : fmt::format("end the program: {} is not carried through a loss", uncarried));
}

}  // namespace

std::string profile_path(const std::string& folder, std::uint32_t rank) {
  return (fs::path(folder) / std::to_string(rank)).string();
}

std::vector<live::RankProfile> read_profiles(const std::string& folder, std::uint32_t ranks) {
  std::vector<live::RankProfile> profiles;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::string path = profile_path(folder, rank);
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    profiles.push_back(live::rank_profile_of(text.str(), path));
  }
  return profiles;
}

void write_measured(const live::MeasuredStep& measured, const MeasuredOrigin& origin,
                    const std::string& out, OutputFile& scenario) {
  fs::path prefix = out;
  prefix.replace_extension();
  write_recording(
      origin.examples == 0 ? measured.step : live::per_example_step(measured.step, origin.examples),
      prefix.string());
  scenario.write_and_rename("# " + origin.comment + "\n" + scenario_text(measured, origin, prefix));
  fmt::print("{}{}", summary(measured), ranks_text(measured.ranks));
  if (!origin.sums.empty()) fmt::print("sums         {}, on the CPU\n", origin.sums);
  if (origin.examples == 0) return;
  fmt::print("micro-batch  one example of each batch of {}\n", origin.examples);
}

}  // namespace orrery::cli
