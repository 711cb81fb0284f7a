#include "policies/run/registry.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "policies/checkpointing/checkpoint_interval.hpp"
#include "policies/collectives/collective_table.hpp"
#include "policies/compression/fixed_codec.hpp"
#include "policies/compression/memory_aware.hpp"
#include "policies/input/prefetch.hpp"
#include "policies/parameters.pb.h"
#include "policies/power/power_budget.hpp"
#include "policies/queues/conservative.hpp"
#include "policies/queues/easy.hpp"
#include "policies/queues/elastic.hpp"
#include "policies/queues/fair_shares.hpp"
#include "policies/queues/fifo.hpp"
#include "policies/queues/fifo_skip.hpp"
#include "policies/queues/finish_time_fairness.hpp"
#include "policies/queues/gittins.hpp"
#include "policies/queues/las.hpp"
#include "policies/queues/multifactor.hpp"
#include "policies/queues/priority.hpp"
#include "policies/queues/remaining.hpp"
#include "policies/queues/sjf.hpp"
#include "policies/rebalancing/predictive_rebalance.hpp"
#include "policies/recovery/cheapest_goodput.hpp"
#include "policies/recovery/recover.hpp"
#include "policies/seam/static_policy.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/power_schedule.hpp"

namespace orrery {
namespace {

template <class Message>
std::unique_ptr<google::protobuf::Message> new_message() {
  return std::make_unique<Message>();
}
template <class Concrete>
std::unique_ptr<Policy> new_policy() {
  return std::make_unique<Concrete>();
}

constexpr std::uint32_t kMaxNodes = 131072;  // limit in topology.proto and scenario.proto
constexpr std::uint32_t kMaxGpusPerNode = 128;

struct Entry {
  std::string_view name;
  std::unique_ptr<Policy> (*make)();
  std::unique_ptr<google::protobuf::Message> (*parameters)();
};

/// Table of the policies in alphabetical order.
constexpr std::array kPolicies{
    Entry{"cheapest-goodput", new_policy<CheapestGoodput>, new_message<CheapestGoodputParameters>},
    Entry{"checkpoint-interval", new_policy<CheckpointInterval>,
          new_message<CheckpointIntervalParameters>},
    Entry{"collective-table", new_policy<CollectiveTablePolicy>,
          new_message<CollectiveTableParameters>},
    Entry{"conservative", new_policy<ConservativePolicy>, new_message<ConservativeParameters>},
    Entry{"drf", new_policy<DrfPolicy>, new_message<DrfParameters>},
    Entry{"easy", new_policy<EasyPolicy>, new_message<EasyParameters>},
    Entry{"elastic", new_policy<ElasticPolicy>, new_message<ElasticParameters>},
    Entry{"fifo", new_policy<FifoPolicy>, new_message<FifoParameters>},
    Entry{"fifo-skip", new_policy<FifoSkipPolicy>, new_message<FifoSkipParameters>},
    Entry{"finish-time-fairness", new_policy<FinishTimeFairnessPolicy>,
          new_message<FinishTimeFairnessParameters>},
    Entry{"fixed-codec", new_policy<FixedCodec>, new_message<FixedCodecParameters>},
    Entry{"gittins", new_policy<GittinsPolicy>, new_message<GittinsParameters>},
    Entry{"las", new_policy<LasPolicy>, new_message<LasParameters>},
    Entry{"max-min", new_policy<MaxMinPolicy>, new_message<MaxMinParameters>},
    Entry{"memory-aware", new_policy<MemoryAware>, new_message<MemoryAwareParameters>},
    Entry{"multifactor", new_policy<MultifactorPolicy>, new_message<MultifactorParameters>},
    Entry{"power-budget", new_policy<PowerBudgetPolicy>, new_message<PowerBudgetParameters>},
    Entry{"predictive-rebalance", new_policy<PredictiveRebalance>,
          new_message<PredictiveRebalanceParameters>},
    Entry{"prefetch", new_policy<PrefetchPolicy>, new_message<PrefetchParameters>},
    Entry{"priority", new_policy<PriorityPolicy>, new_message<PriorityParameters>},
    Entry{"recover", new_policy<RecoverPolicy>, new_message<RecoverParameters>},
    Entry{"sjf", new_policy<SjfPolicy>, new_message<SjfParameters>},
    Entry{"srsf", new_policy<SrsfPolicy>, new_message<SrsfParameters>},
    Entry{"srtf", new_policy<SrtfPolicy>, new_message<SrtfParameters>},
    Entry{"static", new_policy<StaticPolicy>, new_message<StaticParameters>},
};

/// Names that other schedulers and papers use, and the policy of this name here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kOtherNames{{
    {"backfill", "easy"},
    {"backfilling", "easy"},
    {"easy-backfill", "easy"},
    {"conservative-backfill", "conservative"},
    {"fcfs", "fifo"},
    {"fair-share", "multifactor"},
    {"fairshare", "multifactor"},
    {"slurm", "multifactor"},
    {"spt", "sjf"},
    {"srpt", "srtf"},
    {"themis", "finish-time-fairness"},
}};

const Entry& find_entry(std::string_view name, const SourcePlace& place) {
  const auto found = std::find_if(kPolicies.begin(), kPolicies.end(),
                                  [name](const Entry& entry) { return entry.name == name; });
  if (found != kPolicies.end()) return *found;
  const std::string message = no_such_policy(name);
  if (place.file.empty()) throw Error(ErrorKind::bad_input, message);
  throw Error(place, message);
}

PolicyStack::Member make_member(const Entry& entry, const google::protobuf::Any& given) {
  return {.name = std::string(entry.name),
          .policy = entry.make(),
          .parameters = policy_parameters(entry.name, given),
          .make = entry.make};
}

}  // namespace

std::string no_such_policy(std::string_view name) {
  const std::vector<std::string> known = policy_names();
  const auto other = std::find_if(kOtherNames.begin(), kOtherNames.end(),
                                  [name](const auto& each) { return each.first == name; });
  const std::string hint = other == kOtherNames.end()
                               ? did_you_mean(name, known)
                               : fmt::format("; did you mean '{}'?", other->second);
  const std::vector<std::string> queues = queue_policy_names();
  std::vector<std::string> others;
  std::set_difference(known.begin(), known.end(), queues.begin(), queues.end(),
                      std::back_inserter(others));
  return fmt::format("there is no policy '{}'{} of job queues: {}; of trainings: {}", name,
                     hint.empty() ? "; known" : hint + " Known", fmt::join(queues, ", "),
                     fmt::join(others, ", "));
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kPolicies) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> queue_policy_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kPolicies) {
    const auto parameters = entry.parameters();
    if (parameters->GetDescriptor()->FindFieldByName("placement") == nullptr) continue;
    names.emplace_back(entry.name);
  }
  return names;
}

bool is_policy(std::string_view name) {
  return std::any_of(kPolicies.begin(), kPolicies.end(),
                     [name](const Entry& entry) { return entry.name == name; });
}

bool is_policy_file(std::string_view name) {
  return name.ends_with(".py") || name.find(".py:") != std::string_view::npos;
}

std::unique_ptr<Policy> make_policy(std::string_view name, const SourcePlace& place) {
  return find_entry(name, place).make();
}

std::unique_ptr<google::protobuf::Message> policy_parameters(std::string_view name,
                                                             const google::protobuf::Any& given) {
  auto parameters = find_entry(name, {}).parameters();
  if (!given.type_url().empty() && !given.UnpackTo(parameters.get())) {
    throw Error(ErrorKind::bad_input,
                fmt::format("the parameters of policy '{}' are a {}, not a {}", name,
                            given.type_url(), parameters->GetTypeName()));
  }
  fill_defaults(*parameters);
  return parameters;
}

void check_parameter(const Scenario& scenario, const ParameterSet& set, const Cluster& cluster) {
  const auto has = [&set](const PolicySpec& spec) { return spec.name() == set.policy; };
  const auto found = std::find_if(scenario.policies().begin(), scenario.policies().end(), has);
  if (found == scenario.policies().end()) {
    throw Error(ErrorKind::bad_input, fmt::format("the run has no policy '{}'", set.policy));
  }
  const auto parameters = policy_parameters(set.policy, found->parameters());
  set_field(*parameters, set.parameter, set.value, "orrery set");
  Rng rng(0);
  Context context{rng, {Kinds<Action>::all(), Kinds<Setting>::all()}};
  make_policy(set.policy, {})->start(context, cluster, parameters.get());
}

std::unique_ptr<PolicyStack> make_stack(const Scenario& scenario, const SourceMap& places) {
  std::vector<PolicyStack::Member> members;
  for (int i = 0; i < scenario.policies_size(); ++i) {
    const PolicySpec& spec = scenario.policies(i);
    const SourcePlace place =
        places.empty() ? SourcePlace{} : places.place_of(fmt::format("policies[{}].name", i));
    members.push_back(make_member(find_entry(spec.name(), place), spec.parameters()));
  }
  if (members.empty()) members.push_back(make_member(find_entry("static", {}), {}));
  return std::make_unique<PolicyStack>(std::move(members));
}

ParameterSet parameter_set(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::size_t dot = text.find('.');
  if (equals == std::string::npos || dot > equals) {
    throw Error(ErrorKind::usage, fmt::format("expected POLICY.PARAMETER=VALUE, found '{}'", text));
  }
  return {.policy = text.substr(0, dot),
          .parameter = text.substr(dot + 1, equals - dot - 1),
          .value = text.substr(equals + 1)};
}

namespace {

/// Returns the parameter with the limits of power that a queue policy knows in advance; null if the
/// policy has no such parameter.
const google::protobuf::FieldDescriptor* limits_field(const google::protobuf::Message& parameters) {
  const google::protobuf::Descriptor& type = *parameters.GetDescriptor();
  return type.FindFieldByName("placement") == nullptr ? nullptr : type.FindFieldByName("limits");
}

}  // namespace

bool knows_power_limits(const std::string& policy) {
  return is_policy(policy) && limits_field(*policy_parameters(policy, {})) != nullptr;
}

PolicySpec policy_of(const JobReplay& replay) {
  PolicySpec spec;
  spec.set_name(replay.policy());
  const auto parameters = policy_parameters(replay.policy(), {});
  const auto* field = parameters->GetDescriptor()->FindFieldByName("placement");
  if (field != nullptr && !replay.placement().empty()) {
    parameters->GetReflection()->SetString(parameters.get(), field, replay.placement());
  }
  const auto* limits = limits_field(*parameters);
  if (limits != nullptr && spending_of(replay.power()) == JobSpending::wait) {
    for (const PowerLimit& limit : replay.power().limits()) {
      parameters->GetReflection()->AddMessage(parameters.get(), limits)->CopyFrom(limit);
    }
  }
  for (const std::string& each : replay.set()) {
    const ParameterSet set = parameter_set(each);
    if (set.policy == replay.policy()) set_field(*parameters, set.parameter, set.value, "--set");
  }
  spec.mutable_parameters()->PackFrom(*parameters);
  return spec;
}

std::unique_ptr<PolicyStack> make_stack(const JobReplay& replay) {
  Scenario scenario;
  *scenario.add_policies() = policy_of(replay);
  return make_stack(scenario, SourceMap{});
}

namespace {

/// Returns the kinds of the nodes of a replay. Throws bad_input if they are not those of all nodes.
std::vector<NodesOfKind> kinds_of(const JobReplay& replay) {
  std::vector<NodesOfKind> kinds;
  std::uint64_t nodes = 0;
  for (const NodeKind& each : replay.node_kinds()) {
    kinds.push_back({each.kind(), each.nodes()});
    nodes += each.nodes();
  }
  if (kinds.empty() || nodes == replay.nodes()) return kinds;
  throw Error(ErrorKind::bad_input,
              fmt::format("node_kinds: expected the kinds of {} nodes, found those of {}: change "
                          "node_kinds and nodes together",
                          replay.nodes(), nodes));
}

/// Divides the GPUs of the shape into the slices of the replay. Throws bad_input for more slices
/// than ids have memory.
void slice_gpus(Cluster::Shape& shape, const JobReplay& replay) {
  constexpr std::uint64_t kMostSlices = std::uint64_t{1} << 26;
  if (replay.gpu_slices() < 2) return;
  const std::uint64_t gpus = std::uint64_t{shape.nodes} * shape.gpus_per_node;
  if (gpus * replay.gpu_slices() > kMostSlices) {
    throw Error(ErrorKind::bad_input,
                fmt::format("gpu_slices: expected at most {} slices of all GPUs together, found {} "
                            "GPUs with {} slices each, as the parts of GPUs in the log need: set "
                            "gpu_slices={}, which rounds parts up",
                            kMostSlices, gpus, replay.gpu_slices(),
                            std::max<std::uint64_t>(1, kMostSlices / gpus)));
  }
  shape.gpus_per_node *= replay.gpu_slices();
  shape.slices_per_gpu = replay.gpu_slices();
}

}  // namespace

Cluster cluster_of(const JobReplay& replay) {
  std::vector<NodesOfKind> kinds = kinds_of(replay);
  if (replay.has_cluster()) {
    const Cluster built = build_cluster(replay.cluster(), SourceMap{});
    Cluster::Shape described = built.shape();
    described.kinds = std::move(kinds);
    slice_gpus(described, replay);
    return Cluster(built.gpu_model(), described, built.price());
  }
  const bool sane = replay.nodes() >= 1 && replay.nodes() <= kMaxNodes &&
                    replay.gpus_per_node() >= 1 && replay.gpus_per_node() <= kMaxGpusPerNode;
  if (!sane) {
    throw Error(ErrorKind::bad_input,
                fmt::format("expected a cluster of 1 to 131,072 nodes with 1 to 128 GPUs each, "
                            "found {} nodes with {} GPUs each",
                            replay.nodes(), replay.gpus_per_node()));
  }
  GpuModel gpu{};
  gpu.name = "GPU";
  Cluster::Shape shape{};
  shape.nodes = replay.nodes();
  shape.gpus_per_node = replay.gpus_per_node();
  shape.nics_per_node = 1;
  shape.nodes_per_unit = replay.nodes();
  shape.spines = 1;
  shape.kinds = std::move(kinds);
  slice_gpus(shape, replay);
  return Cluster(std::move(gpu), shape, Price{});
}

}  // namespace orrery
