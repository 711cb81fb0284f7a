#include "sim/planning/nearest_run.hpp"

#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/estimates/predict/estimate.hpp"
#include "topologies/builder.hpp"
#include "traces/files/csv.hpp"
#include "traces/published/measured_times.hpp"
#include "traces/published/published_run.hpp"
#include "traces/workload/model.hpp"

namespace orrery::sim {
namespace {

/// Figures of a run in which two runs are compared.
struct Figures {
  std::string gpu, stack;
  double parameters, gpus, tokens_per_gpu, replica;
};

Figures figures_of(const Job& job, const Cluster& cluster) {
  const Layout& layout = job.layout();
  const double replica = double{1} * layout.tensor() * layout.context() * layout.pipeline();
  const double gpus = replica * layout.data();
  const double tokens = double{1} * job.global_batch() * job.sequence_length();
  return {cluster.gpu_model().name,
          job.stack(),
          parameter_count(job.model()),
          gpus,
          tokens / gpus,
          replica};
}

NearestRun compared(const Figures& planned, const Figures& measured) {
  NearestRun run;
  double squares = 0;
  const auto add = [&](const char* name, double a, double b, double unit, int digits) {
    squares += std::pow(std::log(a / b), 2);
    if (std::abs(std::log(a / b)) < 0.01) return;
    run.differences.push_back(
        fmt::format("{} {:.{}f} / {:.{}f}", name, a / unit, digits, b / unit, digits));
  };
  add("billions of parameters", measured.parameters, planned.parameters, 1e9, 1);
  add("GPUs", measured.gpus, planned.gpus, 1, 0);
  add("tokens of a GPU and step", measured.tokens_per_gpu, planned.tokens_per_gpu, 1, 0);
  add("ranks of a replica", measured.replica, planned.replica, 1, 0);
  if (measured.gpu != planned.gpu) {
    squares += 4;
    run.differences.push_back(fmt::format("GPU {} / {}", measured.gpu, planned.gpu));
  }
  if (measured.stack != planned.stack) {
    squares += 1;
    run.differences.push_back(fmt::format("stack {} / {}", measured.stack, planned.stack));
  }
  run.gpu = measured.gpu;
  run.stack = measured.stack;
  run.gpus = static_cast<std::uint32_t>(measured.gpus);
  run.distance = std::sqrt(squares);
  return run;
}

}  // namespace

std::optional<NearestRun> nearest_run(const std::string& path, const Job& job,
                                      const Cluster& cluster) {
  const std::string text = read_packed_text(path);
  const std::map<int, double> times = measured_times(path, text);
  const Figures planned = figures_of(job, cluster);
  std::optional<NearestRun> nearest;
  std::optional<PublishedRun> found;
  PublishedTable table(path, text);
  for (TableRow row; table.next(row);) {
    const auto time = times.find(row.line);
    if (time == times.end()) continue;
    PublishedRun run = published_run(row);
    if (!run.refusal.empty()) continue;
    const Cluster theirs = build_cluster(run.cluster, {}, "cluster");
    NearestRun candidate = compared(planned, figures_of(run.job, theirs));
    if (nearest && nearest->distance <= candidate.distance) continue;
    candidate.id = row.id;
    candidate.model = row.model;
    candidate.measured_s = time->second;
    nearest = std::move(candidate);
    found = std::move(run);
  }
  if (!nearest) return {};
  const Cluster theirs = build_cluster(found->cluster, {}, "cluster");
  nearest->predicted_s = estimates::estimate_step(found->job, theirs).step_s;
  return nearest;
}

}  // namespace orrery::sim
