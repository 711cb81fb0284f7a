#include "sim/planning/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "topologies/builder.hpp"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/model.hpp"

namespace orrery::sim {
namespace {

using estimates::PricedLayout;

/// Layouts whose shape is tried on other numbers of nodes, and candidates for each number.
constexpr std::size_t kShapes = 12, kKept = 3;
/// Numbers of job nodes that are tried beside that of all nodes, and the largest share left idle.
constexpr std::size_t kNodeCounts = 8;
constexpr double kMostIdle = 0.08;

/// Bytes of a checkpoint for each parameter: weights in 16 bits, and in 32 bits with two moments.
constexpr double kCheckpointBytes = 14;
/// Rate of the storage: 405 billion parameters in the 2 min of docs/month.md.
constexpr double kStorageRate = 405e9 * kCheckpointBytes / 120;

void check(const PlanQuestion& question) {
  const auto require = [](bool good, const char* what) {
    if (!good) throw Error(ErrorKind::bad_input, fmt::format("plan: expected {}", what));
  };
  require(question.tokens <= 1e18, "at most 1e18 tokens");
  require(question.deadline_s.value_or(1) > 0, "a deadline above 0");
  require(question.budget_usd.value_or(1) > 0, "a budget above 0 USD");
  require(question.confidence > 0 && question.confidence < 1, "a confidence between 0 and 1");
  require(question.batch_change >= 0 && question.batch_change <= 0.5,
          "a change of the batch of at most 50%");
  require(question.seeds >= 10 && question.seeds <= 10'000, "10 to 10,000 seeds");
}

/// Returns the blocks of the scenario that a planner's question leaves open.
std::vector<std::string> default_blocks(const PlanQuestion& question, double parameters) {
  const double write = std::max(1.0, parameters * kCheckpointBytes / kStorageRate);
  return {"failures=" + (question.failures.empty() ? default_failures() : question.failures),
          "survival={on_loss: hold, heartbeat_timeout: 30 s, detection: 30 s, regroup: 60 s, "
          "restart: 4 min, replacement: 4 min}",
          fmt::format("checkpoints={{folder: checkpoints, stall: 5 s, write: {:.0f} s}}", write),
          "policies=[{name: recover, parameters: {how: restart}}]"};
}

/// Returns the prices of the question's instance with the cluster's GPU and of its grid.
std::vector<std::string> price_blocks(const PlanQuestion& question, const std::string& cluster) {
  std::vector<std::string> blocks;
  if (question.grid) {
    blocks.push_back(fmt::format("cluster.price.carbon={}", question.grid->value));
  }
  if (question.instances.empty()) return blocks;
  Topology one = asked_cluster(cluster);
  one.set_nodes(1);
  resolve(one, {}, "");
  const std::string& gpu = one.node().gpu();
  for (const PriceRow& each : question.instances) {
    if (!gpu.starts_with(each.gpu)) continue;
    blocks.push_back(fmt::format("cluster.price.gpu_hour={} USD/h", each.value / each.gpus));
    return blocks;
  }
  const PriceRow& first = question.instances.front();
  throw Error(ErrorKind::bad_input,
              fmt::format("plan: expected an instance with {}, the GPU of {}, found {} with {}",
                          gpu, cluster, first.name, first.gpu));
}

std::uint32_t largest_prime(std::uint32_t number) {
  std::uint32_t largest = 1;
  for (std::uint32_t i = 2; i * i <= number; ++i) {
    while (number % i == 0) {
      number /= i;
      largest = i;
    }
  }
  return std::max(largest, number);
}

/// Returns the largest number up to `most` without prime factors above 3.
std::uint32_t smooth_below(std::uint32_t most) {
  while (largest_prime(most) > 3) --most;
  return most;
}

/// Returns numbers of job nodes: all, one to three spares, and those with small prime factors,
/// which have more layouts.
std::vector<std::uint32_t> node_counts(std::uint32_t nodes) {
  std::vector<std::uint32_t> counts{nodes};
  const auto least = static_cast<std::uint32_t>(std::ceil(nodes * (1 - kMostIdle)));
  for (std::uint32_t n = nodes - 1; n >= std::max(1u, std::min(least, nodes - 1)); --n) {
    if (counts.size() > kNodeCounts) break;
    if (nodes - n <= 3 || largest_prime(n) <= 7) counts.push_back(n);
  }
  return counts;
}

auto key_of(const LayoutChoice& choice) {
  return std::tuple(choice.tensor, choice.context, choice.pipeline, choice.chunks, choice.expert,
                    choice.micro_batch, choice.shard, choice.recompute);
}

class Search {
 public:
  Search(const PlanBasis& basis, double batch_change)
      : basis_(basis), batch_change_(batch_change) {}
  std::vector<Candidate> all();

 private:
  estimates::LayoutBasis pricing() const { return {basis_.habits, basis_.assumed.empty()}; }
  void search_all(std::uint32_t nodes, std::uint32_t batch, bool keep);
  std::optional<std::uint32_t> batch_for(std::uint32_t nodes) const;
  void add_shape(const LayoutChoice& choice);
  void try_shapes(std::uint32_t nodes);
  std::optional<Candidate> fitted(LayoutChoice shape, std::uint32_t nodes, const Cluster& on) const;
  std::optional<std::uint32_t> batch_near(std::uint64_t multiple) const;
  Candidate made(PricedLayout priced, std::uint32_t nodes, std::uint32_t batch) const;
  void keep_fastest(std::vector<Candidate> of_count);

  const PlanBasis& basis_;
  const double batch_change_;
  std::vector<LayoutChoice> shapes_;
  std::vector<Candidate> out_;
};

Candidate Search::made(PricedLayout priced, std::uint32_t nodes, std::uint32_t batch) const {
  const double tokens = double{1} * batch * basis_.scenario.job().sequence_length();
  const double rate = tokens / priced.estimate.step_s;
  return {nodes, batch, std::move(priced), rate, {}};
}

void Search::keep_fastest(std::vector<Candidate> of_count) {
  std::stable_sort(of_count.begin(), of_count.end(), [](const Candidate& a, const Candidate& b) {
    return a.tokens_per_s > b.tokens_per_s;
  });
  if (of_count.size() > kKept) of_count.resize(kKept);
  for (Candidate& each : of_count) out_.push_back(std::move(each));
}

void Search::add_shape(const LayoutChoice& choice) {
  const bool known = std::any_of(shapes_.begin(), shapes_.end(), [&](const LayoutChoice& each) {
    return key_of(each) == key_of(choice);
  });
  if (!known) shapes_.push_back(choice);
}

/// Prices all layouts of a batch, as `orrery layouts` does.
void Search::search_all(std::uint32_t nodes, std::uint32_t batch, bool keep) {
  Job job = basis_.scenario.job();
  job.set_global_batch(batch);
  const estimates::LayoutSearch found =
      estimates::search_layouts(job, cluster_of(basis_, nodes), pricing());
  std::vector<Candidate> fitting;
  for (std::size_t i = 0; i < std::min(found.fitting, kShapes); ++i) {
    add_shape(found.layouts[i].choice);
    if (keep) fitting.push_back(made(found.layouts[i], nodes, batch));
  }
  keep_fastest(std::move(fitting));
}

/// Returns the batch with the most ways to divide it among the GPUs of these nodes: the nearest
/// multiple of their odd part and of the highest power of two that the question allows. For
/// example, 56 GPUs and a batch of 256 have 252 = 9 x 7 x 4.
std::optional<std::uint32_t> Search::batch_for(std::uint32_t nodes) const {
  const std::uint32_t gpus = nodes * basis_.cluster.shape().gpus_per_node;
  for (std::uint64_t multiple = gpus;; multiple /= 2) {
    if (const auto batch = batch_near(multiple)) return batch;
    if (multiple % 2 != 0) return {};
  }
}

/// Returns the batch nearest to the question's that is a multiple of `multiple`; nothing if it
/// differs too much.
std::optional<std::uint32_t> Search::batch_near(std::uint64_t multiple) const {
  const double asked = basis_.scenario.job().global_batch();
  const double count = std::max(1.0, std::round(asked / static_cast<double>(multiple)));
  const double batch = count * static_cast<double>(multiple);
  if (std::abs(batch / asked - 1) > batch_change_ || batch > 1e8) return {};
  return static_cast<std::uint32_t>(batch);
}

std::optional<Candidate> Search::fitted(LayoutChoice shape, std::uint32_t nodes,
                                        const Cluster& on) const {
  const std::uint32_t replica = shape.tensor * shape.context * shape.pipeline;
  if (on.gpus() % replica != 0) return {};
  shape.data = on.gpus() / replica;
  std::uint64_t multiple = std::uint64_t{shape.data} * shape.micro_batch;
  if (shape.chunks > 1) multiple *= shape.pipeline;  // whole rounds of an interleaved pipeline
  const std::optional<std::uint32_t> batch = batch_near(multiple);
  if (!batch) return {};
  Job job = basis_.scenario.job();
  job.set_global_batch(*batch);
  if (!job_problems(laid_out(job, shape)).empty()) return {};
  PricedLayout priced = estimates::price_layout(job, on, pricing(), shape);
  if (priced.status != PricedLayout::Status::ok) return {};
  return made(std::move(priced), nodes, *batch);
}

void Search::try_shapes(std::uint32_t nodes) {
  const Cluster on = cluster_of(basis_, nodes);
  std::vector<Candidate> fitting;
  for (const LayoutChoice& shape : shapes_) {
    auto candidate = fitted(shape, nodes, on);
    if (candidate) fitting.push_back(std::move(*candidate));
  }
  keep_fastest(std::move(fitting));
}

std::vector<Candidate> Search::all() {
  const std::uint32_t nodes = basis_.cluster.nodes();
  const std::uint32_t asked = basis_.scenario.job().global_batch();
  search_all(nodes, asked, true);
  const auto other = batch_for(nodes);
  if (other && *other != asked) search_all(nodes, *other, true);
  const std::uint32_t smooth = smooth_below(nodes);
  if (smooth != nodes) search_all(smooth, batch_for(smooth).value_or(asked), false);
  for (const std::uint32_t count : node_counts(nodes)) {
    if (batch_change_ > 0 || count != nodes) try_shapes(count);
  }
  std::set<std::tuple<std::uint32_t, std::uint32_t, decltype(key_of({}))>> seen;
  std::erase_if(out_, [&](const Candidate& each) {
    return !seen.insert({each.job_nodes, each.global_batch, key_of(each.priced.choice)}).second;
  });
  return std::move(out_);
}

}  // namespace

std::string default_failures() { return "{profile: llama3, repair: 6 h}"; }

PlanBasis basis_of(const PlanQuestion& question, const std::string& cluster, std::uint32_t gpus) {
  check(question);
  LayoutQuestion asked = question.job;
  asked.cluster = cluster;
  asked.gpus = gpus;
  Model model = asked_model(asked.model);
  resolve(model, {}, "model");
  std::vector<std::string> overrides = default_blocks(question, parameter_count(model));
  for (std::string& each : price_blocks(question, cluster)) overrides.push_back(std::move(each));
  overrides.insert(overrides.end(), question.overrides.begin(), question.overrides.end());
  AskedScenario made = scenario_of(asked, overrides);
  Cluster whole = build_cluster(made.loaded.scenario.cluster(), made.loaded.places, "cluster");
  return {cluster,          std::move(made.loaded.scenario),
          std::move(whole), std::move(made.assumed),
          made.habits,      question.tokens};
}

Job job_of(const PlanBasis& basis, const Candidate& candidate) {
  Job job = basis.scenario.job();
  job.set_global_batch(candidate.global_batch);
  return laid_out(std::move(job), candidate.priced.choice, basis.habits);
}

Cluster cluster_of(const PlanBasis& basis, std::uint32_t nodes) {
  Topology topology = basis.scenario.cluster();
  topology.set_nodes(nodes);
  return build_cluster(topology, {}, "cluster");
}

std::vector<Candidate> find_candidates(const PlanBasis& basis, double batch_change) {
  return Search(basis, batch_change).all();
}

std::vector<Candidate> priced_again(const PlanBasis& basis, const FoundLayouts& found) {
  std::vector<Candidate> candidates;
  for (const FoundLayouts::Each& each : found.layouts) {
    Job job = basis.scenario.job();
    job.set_global_batch(each.global_batch);
    Candidate made{each.job_nodes, each.global_batch,
                   estimates::price_layout(job, cluster_of(basis, each.job_nodes),
                                           {basis.habits, basis.assumed.empty()}, each.choice),
                   0,
                   {}};
    if (made.priced.status != PricedLayout::Status::ok) continue;
    const double tokens = double{1} * each.global_batch * job.sequence_length();
    made.tokens_per_s = tokens / made.priced.estimate.step_s;
    candidates.push_back(std::move(made));
  }
  return candidates;
}

}  // namespace orrery::sim
