#include "sim/packing/fragmentation.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace orrery::sim {
namespace {

constexpr double kTypicalShare = 0.95;

/// Score that falls with the growing fragmentation, from 100 to 0; 50 for no change. Rounding keeps
/// the order in which shares were added from separating 49 and 50.
int score_of(double before, double after) {
  constexpr double kStepsOfOne = 1e6;
  const double more = std::round((after - before) * kStepsOfOne) / kStepsOfOne;
  return static_cast<int>(100 / (1 + std::exp(more / kWholeGpu)));
}

}  // namespace

TypicalPods::TypicalPods(const std::vector<Pod>& pods) {
  using Request =
      std::tuple<std::int64_t, std::uint32_t, std::uint32_t, std::vector<std::string>>;
  std::map<Request, double> counts;
  for (const Pod& pod : pods) ++counts[{pod.cpu_milli, pod.gpu_milli, pod.gpus, pod.models}];
  std::vector<std::pair<double, Request>> sorted;
  for (const auto& [request, count] : counts) sorted.emplace_back(count, request);
  std::sort(sorted.rbegin(), sorted.rend());
  double taken = 0;
  std::size_t typical = 0;
  while (typical < sorted.size() && taken < kTypicalShare * static_cast<double>(pods.size())) {
    taken += sorted[typical++].first;
  }
  sorted.resize(typical);
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::vector<std::string>>,
           std::map<std::int64_t, double>>
      kinds;
  for (const auto& [count, request] : sorted) {
    const auto& [cpu, milli, gpus, models] = request;
    kinds[{gpus, milli, models}][cpu] += count / taken;
  }
  for (const auto& [of, by_cpu] : kinds) {
    Kind kind{std::get<0>(of), std::get<1>(of), std::get<2>(of), {}, 0};
    for (const auto& [cpu, share] : by_cpu) {
      kind.share += share;
      kind.by_cpu.emplace_back(cpu, kind.share);
    }
    kinds_.push_back(std::move(kind));
  }
}

double TypicalPods::share_up_to(const Kind& kind, std::int64_t cpu_milli) {
  const auto behind = std::upper_bound(
      kind.by_cpu.begin(), kind.by_cpu.end(), cpu_milli,
      [](std::int64_t cpu, const auto& step) { return cpu < step.first; });
  return behind == kind.by_cpu.begin() ? 0 : (behind - 1)->second;
}

double TypicalPods::fragmented(const SharedCluster::Node& node) const {
  if (node.gpu_left == 0) return 0;
  const auto all = static_cast<double>(node.gpu_left);
  double sum = 0;
  for (const Kind& kind : kinds_) {
    std::uint32_t sufficing = 0;
    std::uint64_t useless = 0;
    for (const std::uint32_t left : node.gpu_milli) {
      if (left >= kind.gpu_milli) {
        ++sufficing;
      } else {
        useless += left;
      }
    }
    const bool other_kind =
        !kind.models.empty() &&
        !std::binary_search(kind.models.begin(), kind.models.end(), node.model);
    if (kind.gpus == 0 || other_kind || sufficing < kind.gpus) {
      sum += kind.share * all;
      continue;
    }
    const double with_cpu = share_up_to(kind, node.cpu_milli);
    sum += with_cpu * static_cast<double>(useless) + (kind.share - with_cpu) * all;
  }
  return sum;
}

FgdPacker::Choice FgdPacker::best_choice(const Pod& pod, const SharedCluster::Node& node) {
  const double before = typical_.fragmented(node);
  SharedCluster::Node with = node;
  with.cpu_milli -= pod.cpu_milli;
  with.gpu_left -= pod.all_gpu_milli();
  Choice best{.changes = node.changes, .score = -1};
  if (pod.gpus != 1 || pod.gpu_milli == kWholeGpu) {
    for (const std::uint32_t gpu : tightest_gpus(pod, node)) with.gpu_milli[gpu] -= pod.gpu_milli;
    best.score = score_of(before, typical_.fragmented(with));
    return best;
  }
  std::set<std::uint32_t> tried;  // equal GPUs come to the same, and the first one is taken
  for (std::uint32_t gpu = 0; gpu < node.gpu_milli.size(); ++gpu) {
    if (node.gpu_milli[gpu] < pod.gpu_milli || !tried.insert(node.gpu_milli[gpu]).second) continue;
    with.gpu_milli[gpu] -= pod.gpu_milli;
    const int score = score_of(before, typical_.fragmented(with));
    with.gpu_milli[gpu] += pod.gpu_milli;
    if (score <= best.score) continue;
    best.score = score;
    best.gpu = gpu;
  }
  return best;
}

std::optional<Pick> FgdPacker::pick_place(const Pod& pod, const SharedCluster& cluster) {
  std::vector<Choice>& choices = choices_[{pod.cpu_milli, pod.gpus, pod.gpu_milli}];
  choices.resize(cluster.nodes().size());
  std::optional<std::uint32_t> best;
  for (std::uint32_t node = 0; node < choices.size(); ++node) {
    if (!cluster.fits(pod, node)) continue;
    Choice& here = choices[node];
    if (here.changes != cluster.nodes()[node].changes)
      here = best_choice(pod, cluster.nodes()[node]);
    if (!best || here.score > choices[*best].score) best = node;
  }
  if (!best) return {};
  const bool shares = pod.gpus == 1 && pod.gpu_milli < kWholeGpu;
  if (shares) return Pick{*best, {choices[*best].gpu}};
  return Pick{*best, tightest_gpus(pod, cluster.nodes()[*best])};
}

}  // namespace orrery::sim
