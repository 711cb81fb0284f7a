#include "sim/estimates/prices/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "sim/estimates/prices/measured_kernels.hpp"
#include "topologies/catalog.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::estimates {
namespace {

/// Returns a value that rises from 0 to 1 with `size` and is one half at `half`.
double saturation(double size, double half) { return size > 0 ? size / (size + half) : 0; }

/// Size of the part of a product that one processor computes at a time.
struct Tile {
  double rows, columns;
};
constexpr Tile kTiles[] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}};

/// Returns the share of the peak that a product reaches in its best tiling: small tiles load more
/// data per result, tiles that do not fit compute more than needed, and processors stand idle in
/// the last wave (which kernels that split the inner dimension avoid in part).
double tiled_share(const Kernel& kernel, const CostProfile& profile) {
  const double needed = kernel.m * kernel.n * kernel.batch;
  double best = 0;
  for (const Tile& tile : kTiles) {
    const double tiles = std::ceil(kernel.m / tile.rows) * std::ceil(kernel.n / tile.columns);
    const double waves = tiles * kernel.batch / profile.gemm_processors;
    const double paid = waves + profile.gemm_wave * (std::ceil(waves) - waves);
    const double area = tile.rows * tile.columns;
    const double loss = 1 + profile.gemm_tile_loss / std::sqrt(area);
    best = std::max(best, needed / (paid * profile.gemm_processors * area * loss));
  }
  return best * saturation(kernel.k, profile.gemm_half_k);
}

/// Returns the share of the memory bandwidth; kernels without a measurement count as the residual
/// addition, a plain stream.
double memory_share(KernelName name, const CostProfile& profile) {
  switch (name) {
    case KernelName::norm: return profile.norm;
    case KernelName::activation: return profile.activation;
    case KernelName::rotary: return profile.rotary;
    case KernelName::embedding:
    case KernelName::embedding_backward: return profile.embedding;
    default: return profile.residual;
  }
}

/// Returns the share of a kernel's bytes that remains after a framework fuses the kernel with its
/// neighbours.
double bytes_left(KernelName name, const CostProfile& profile) {
  switch (name) {
    case KernelName::norm:
    case KernelName::activation:
    case KernelName::rotary:
    case KernelName::residual: return profile.fused_bytes;
    case KernelName::adam: return profile.update_bytes;
    case KernelName::loss:
    case KernelName::loss_backward: return profile.loss_bytes;
    default: return 1;
  }
}

bool is_low(Precision precision) {
  return precision == Precision::fp8 || precision == Precision::fp4;
}

double gemm_peak(Precision precision, const CostProfile& profile) {
  if (precision == Precision::fp4 && profile.gemm_fp4_peak > 0) return profile.gemm_fp4_peak;
  return is_low(precision) ? profile.gemm_low_peak : profile.gemm_peak;
}

/// Returns the rate of an attention over that of a forward pass over a long sequence.
double attention_growth(const Kernel& kernel, double half, double backward) {
  const bool is_backward = kernel.name == KernelName::attention_backward;
  return saturation(kernel.m, half) * (is_backward ? backward : 1);
}

bool is_expert_product(KernelName name) {
  return name >= KernelName::expert_down && name <= KernelName::expert_up_wgrad;
}

double arithmetic_share(const Kernel& kernel, Precision used, const CostProfile& profile) {
  if (kernel.kind == Kernel::Kind::gemm) {
    const double grouped = is_expert_product(kernel.name) ? profile.grouped : 1;
    return gemm_peak(used, profile) * grouped * tiled_share(kernel, profile);
  }
  double rate = profile.attention_rate;
  if (kernel.flash_2) rate = std::min(rate, profile.attention_flash_2);
  return rate * profile.attention_peak *
         attention_growth(kernel, profile.attention_half, profile.attention_backward);
}

/// Returns the rate of a product or an attention.
FlopPerSecond arithmetic_rate(const Kernel& kernel, const GpuModel& gpu, Precision used,
                              const CostProfile& profile) {
  const FlopPerSecond rate = gpu.peak(used) * arithmetic_share(kernel, used, profile);
  if (kernel.kind != Kernel::Kind::attention || used != Precision::bf16) return rate;
  if (kernel.flash_2) return rate;
  const AttentionRate& least = profile.attention_least;
  return std::max(rate, least.most * attention_growth(kernel, least.half, least.backward));
}

/// Returns the FLOPs of a kernel as it runs: fused attention may pad the sizes of its heads.
Flop padded_flop(const Kernel& kernel, const CostProfile& profile) {
  const double lanes = profile.attention_lanes;
  if (kernel.kind != Kernel::Kind::attention || lanes <= 0) return kernel.flop;
  const double head = kernel.k, value = kernel.value > 0 ? kernel.value : head;
  if (head <= 0) return kernel.flop;
  const auto padded = [lanes](double size) { return std::ceil(size / lanes) * lanes; };
  return kernel.flop * ((padded(head) + padded(value)) / (head + value));
}

/// Format in which a product or an attention runs.
Precision used_precision(const Kernel& kernel, const GpuModel& gpu, Precision precision) {
  if (kernel.precision) return supported_precision(gpu, *kernel.precision);
  const bool low = kernel.low_precision && is_low(precision);
  return low || !is_low(precision) ? precision : Precision::bf16;
}

Seconds modelled_time(const Kernel& kernel, const GpuModel& gpu, Precision precision,
                      const CostProfile& profile) {
  if (kernel.kind == Kernel::Kind::timed) return kernel.time;
  if (kernel.kind == Kernel::Kind::memory_bound) {
    const double share = memory_share(kernel.name, profile);
    const Bytes bytes = kernel.bytes * bytes_left(kernel.name, profile);
    return bytes / (gpu.memory_bandwidth * share) + profile.memory_start;
  }
  const Precision used = used_precision(kernel, gpu, precision);
  const Seconds memory = kernel.bytes / (gpu.memory_bandwidth * profile.gemm_memory);
  const Seconds arithmetic =
      padded_flop(kernel, profile) / arithmetic_rate(kernel, gpu, used, profile);
  if (kernel.kind == Kernel::Kind::attention) {
    return std::max(memory, arithmetic) + profile.gemm_start;
  }
  const double power = profile.gemm_overlap;
  return Seconds{std::pow(std::pow(memory.value, power) + std::pow(arithmetic.value, power),
                          1 / power)} +
         profile.gemm_start;
}

/// Measured kernels are of 16 bits.
Seconds kernel_time(const Kernel& kernel, const GpuModel& gpu, Precision precision,
                    const CostProfile& profile) {
  const Seconds modelled = modelled_time(kernel, gpu, precision, profile);
  if (!profile.measured) return modelled;
  const bool computes = kernel.kind == Kernel::Kind::gemm || kernel.kind == Kernel::Kind::attention;
  if (computes && used_precision(kernel, gpu, precision) != Precision::bf16) return modelled;
  const Bytes bytes = kernel.bytes * bytes_left(kernel.name, profile);
  return profile.measured->time(kernel, bytes, modelled, [&](const Kernel& near) {
    return modelled_time(near, gpu, Precision::bf16, profile);
  });
}

// ---- collectives --------------------------------------------------------------------------

/// Prices of the collectives inside one GPU's blocks.
class Links {
 public:
  Links(const GpuModel& gpu, const BlockGroups& groups, const CostProfile& profile)
      : groups_(groups),
        profile_(profile),
        nvlink_(gpu.nvlink.value > 0 ? gpu.nvlink : gpu.pcie),
        network_(groups.network * profile.network) {}

  Seconds time(const BlockCollective& collective) const;

 private:
  Seconds ring(const BlockCollective& collective, const GroupShape& group) const;
  Seconds pass(const BlockCollective& collective, const GroupShape& group) const;
  Seconds exchange(const BlockCollective& collective, const GroupShape& group) const;
  /// Returns the share of the NVLink rate that a ring among GPUs of a node reaches.
  double nvlink_share(bool reduces, double among) const {
    const double loss = profile_.nvlink_pair_loss;
    return (reduces ? profile_.nvlink_all_reduce : profile_.nvlink) * (1 - loss / among) /
           (1 - loss / 8);
  }
  bool leaves_node(const GroupShape& group) const { return group.per_node < group.size; }
  /// Returns the latency of a round: the mean over the ring's edges.
  Seconds latency(const GroupShape& group) const {
    if (!leaves_node(group)) return groups_.nvlink_latency;
    const double crossing = 1.0 / group.per_node;
    return groups_.network_latency * (profile_.latency * crossing) +
           groups_.nvlink_latency * (1 - crossing);
  }

  const BlockGroups& groups_;
  const CostProfile& profile_;
  BytesPerSecond nvlink_, network_;
};

/// The time is a start, the latency of each round, and a transfer that is cut into the best number
/// of pieces for a pipeline that takes time to fill: (sqrt(transfer) + sqrt(fill))^2 - fill.
/// Between nodes a ring uses the NICs of all its ranks in the node.
Seconds Links::ring(const BlockCollective& collective, const GroupShape& group) const {
  const bool reduces = collective.kind == BlockCollective::Kind::all_reduce;
  const RingCost cost = reduces ? ring_all_reduce(group.size) : ring_half(group.size);
  BytesPerSecond rate = nvlink_ * nvlink_share(reduces, std::max(2u, group.per_node));
  if (leaves_node(group)) {
    const BytesPerSecond nics = network_ * double(group.per_node);
    rate = group.per_node == 1 ? nics : std::min(rate, nics);
  }
  const Seconds transfer = collective.bytes * cost.share / rate;
  const Seconds filling{2 * std::sqrt(transfer.value * profile_.nvlink_fill.value)};
  return profile_.nvlink_start + latency(group) * cost.rounds + transfer + filling;
}

/// Each rank forwards its last received part to the next rank; the slowest edge sets the pace of a
/// round.
Seconds Links::pass(const BlockCollective& collective, const GroupShape& group) const {
  const bool leaves = leaves_node(group);
  const BytesPerSecond rate = leaves ? network_ : nvlink_ * profile_.nvlink;
  const Seconds round = leaves ? groups_.network_latency : groups_.nvlink_latency;
  const double rounds = group.size - 1.0;
  return profile_.nvlink_start + (round + collective.bytes / double(group.size) / rate) * rounds;
}

/// Every rank sends an equal part to each other rank, inside the node and out of the node at once.
Seconds Links::exchange(const BlockCollective& collective, const GroupShape& group) const {
  const Bytes part = collective.bytes / double(group.size);
  const Seconds inside = part * (group.per_node - 1.0) / (nvlink_ * profile_.nvlink);
  if (!leaves_node(group)) return profile_.nvlink_start + groups_.nvlink_latency + inside;
  const Seconds outside = part * double(group.size - group.per_node) / network_;
  return profile_.nvlink_start + groups_.network_latency + std::max(inside, outside);
}

Seconds Links::time(const BlockCollective& collective) const {
  const GroupShape& group = groups_.of(collective.communicator);
  if (group.size < 2) return {};
  if (profile_.measured && !leaves_node(group)) {
    const auto known = profile_.measured->collective(collective.kind, collective.bytes, group.size);
    if (known) return *known;
  }
  switch (collective.kind) {
    case BlockCollective::Kind::ring_pass: return pass(collective, group);
    case BlockCollective::Kind::all_to_all: return exchange(collective, group);
    default: return ring(collective, group);
  }
}

/// Returns the collective time that is not hidden, by kernels of a name or by declaration.
Seconds exposed(const Block& block, const std::map<KernelName, Seconds>& kernels,
                const Links& links) {
  Seconds sum;
  std::map<KernelName, Seconds> beside;
  for (const BlockCollective& collective : block.collectives) {
    const Seconds all = links.time(collective) * collective.repeat;
    const KernelName name = collective.beside;
    (name == KernelName::plain ? sum : beside[name]) += all * (1 - collective.hidden);
  }
  for (const auto& [name, time] : beside) {
    const auto found = kernels.find(name);
    const Seconds covered = found == kernels.end() ? Seconds{} : found->second;
    sum += std::max(Seconds{}, time - covered);
  }
  return sum;
}

/// Returns, by replica, the ranks per NVLink domain of the communicator that is spread over most
/// domains. Communicators of experts may contain ranks of several replicas.
std::vector<std::uint32_t> least_per_node(const StepGraph& graph, const Cluster& cluster,
                                          const std::vector<GpuId>& placement, Communicator which) {
  const std::uint32_t size = graph.communicator_size(which);
  if (size < 2) return {};
  std::vector<std::uint32_t> least(graph.data(), size);
  std::vector<bool> seen(graph.ranks(), false);
  std::vector<std::uint32_t> domains;
  for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) {
    if (seen[rank]) continue;
    domains.clear();
    const std::vector<RankId> group = graph.communicator(which, {rank});
    for (const RankId member : group) {
      seen[member.value] = true;
      domains.push_back(cluster.domain_of(placement[member.value]));
    }
    std::sort(domains.begin(), domains.end());
    const auto count = std::unique(domains.begin(), domains.end()) - domains.begin();
    for (const RankId member : group) {
      std::uint32_t& here = least[graph.position(member).replica];
      here = std::min(here, size / static_cast<std::uint32_t>(count));
    }
  }
  return least;
}

GroupShape shape_of(const StepGraph& graph, Communicator which,
                    const std::vector<std::uint32_t>& per_node) {
  GroupShape shape{graph.communicator_size(which), graph.communicator_size(which)};
  for (const std::uint32_t least : per_node) shape.per_node = std::min(shape.per_node, least);
  return shape;
}

/// GPU and kernel profile of the last generation before Blackwell.
const std::string kHopper = "H100";

double peak_of_hopper() {
  for (const GpuSpec& gpu : gpu_catalog().gpus()) {
    if (gpu.name() == kHopper) return gpu.bf16();
  }
  throw Error(ErrorKind::internal, "the catalogue of GPUs has no " + kHopper);
}

/// Returns true if a kernel profile has the attention of a relative: nobody measured the GPU's.
bool has_transferred_attention(const std::string& family) {
  const auto& transferred = kernel_profile(family).transferred();
  return std::find(transferred.begin(), transferred.end(), "attention") != transferred.end();
}

}  // namespace

CostProfile cost_profile(const std::string& gpu) { return cost_profile(kernel_profile(gpu)); }

CostProfile cost_profile(const GpuModel& gpu) {
  return cost_profile(gpu.family.empty() ? gpu.name : gpu.family);
}

CostProfile cost_profile(const KernelProfile& from) {
  return {.gemm_peak = from.gemm_peak(),
          .gemm_processors = from.gemm_processors(),
          .gemm_tile_loss = from.gemm_tile_loss(),
          .gemm_half_k = from.gemm_half_k(),
          .gemm_wave = from.gemm_wave(),
          .gemm_overlap = from.gemm_overlap(),
          .gemm_memory = from.gemm_memory(),
          .gemm_low_peak = from.gemm_low_peak(),
          .gemm_fp4_peak = from.gemm_fp4_peak(),
          .gemm_start = {from.gemm_start()},
          .attention_peak = from.attention_peak(),
          .attention_half = from.attention_half(),
          .attention_backward = from.attention_backward(),
          .attention_lanes = double(from.attention_lanes()),
          .norm = from.norm(),
          .activation = from.activation(),
          .rotary = from.rotary(),
          .residual = from.residual(),
          .embedding = from.embedding(),
          .memory_start = {from.memory_start()},
          .nvlink = from.nvlink(),
          .nvlink_all_reduce = from.nvlink_all_reduce(),
          .nvlink_pair_loss = from.nvlink_pair_loss(),
          .nvlink_start = {from.nvlink_start()},
          .nvlink_fill = {from.nvlink_fill()},
          .network = from.network(),
          .collective_start = {from.collective_start()},
          .collective_ll = from.collective_ll(),
          .collective_ll128 = from.collective_ll128(),
          .collective_hop = from.collective_hop(),
          .network_hop = from.network_hop(),
          .collective_fill = {from.collective_fill()},
          .network_fill = from.network_fill(),
          .collective_pair_loss = from.collective_pair_loss(),
          .nvls = from.nvls(),
          .send = from.send(),
          .send_start = {from.send_start()},
          .collective_round = from.collective_round(),
          .collective_nvls_fill = {from.collective_nvls_fill()},
          .collective_ring = from.collective_ring(),
          .collective_direct = from.collective_direct(),
          .collective_half_loss = from.collective_half_loss(),
          .network_pair_loss = from.network_pair_loss(),
          .attention_flash_1 = from.attention_flash_1() > 0 ? from.attention_flash_1() : 1,
          .attention_flash_2 = from.attention_flash_2() > 0 ? from.attention_flash_2() : 1};
}

CostProfile over_links(CostProfile profile, const Cluster& cluster) {
  if (!cluster.shape().line_rate) return profile;
  profile.nvlink = profile.nvlink_all_reduce = profile.network = profile.latency = 1;
  profile.nvlink_pair_loss = profile.collective_pair_loss = 0;
  profile.nvlink_start = profile.nvlink_fill = {};
  profile.collective_start = profile.collective_fill = profile.send_start = {};
  profile.collective_ll = profile.collective_ll128 = 0;
  profile.collective_hop = profile.network_hop = profile.network_fill = 0;
  profile.nvls = profile.send = 0;  // zero: same rate as a ring
  profile.collective_ring = profile.collective_direct = profile.collective_round = 0;
  profile.collective_half_loss = profile.network_pair_loss = 0;
  profile.collective_nvls_fill = {};
  return profile;
}

CostProfile with_measured(CostProfile profile, std::shared_ptr<const MeasuredKernels> measured,
                          const GpuModel& gpu) {
  if (!measured) return profile;
  measured->check_gpu(gpu);
  const double half = measured->ring_share(gpu, false), whole = measured->ring_share(gpu, true);
  if (half > 0) profile.nvlink = std::min(1.0, half);
  if (whole > 0) profile.nvlink_all_reduce = whole;
  if (half > 0 || whole > 0) profile.nvlink_pair_loss = 0;
  profile.measured = std::move(measured);
  return profile;
}

CostProfile with_attention(CostProfile profile, Attention kernels) {
  if (kernels == Attention::flash_1) profile.attention_rate = profile.attention_flash_1;
  if (kernels == Attention::flash_2) profile.attention_rate = profile.attention_flash_2;
  return profile;
}

CostProfile apply(CostProfile profile, const SoftwareStack& stack, const std::string& gpu,
                  const std::string& family, bool has_experts) {
  const StackOnGpu* on = stack_on_gpu(stack, gpu, family);
  const auto factor = [](bool given, double value) { return given ? value : 1; };
  double compute = on == nullptr ? 1 : on->compute();
  if (on != nullptr && has_experts) compute *= factor(on->has_experts(), on->experts());
  const double low = compute * (on == nullptr ? 1 : factor(on->has_low(), on->low()));
  profile.gemm_peak *= stack.gemm() * compute;
  profile.gemm_low_peak *= stack.gemm_low() * low;
  profile.gemm_fp4_peak *= stack.gemm_low() * low;
  profile.attention_peak *= stack.attention() * compute;
  if (on != nullptr) profile.attention_peak *= factor(on->has_attention(), on->attention());
  profile.fused_bytes *= stack.memory_bytes();
  profile.layer_gap += Seconds{to_seconds(stack.layer_gap())};
  profile.nvlink *= stack.nvlink();
  profile.nvlink_all_reduce *= stack.nvlink();
  profile.network *= stack.network();
  if (on != nullptr) profile.network *= factor(on->has_network(), on->network());
  if (on != nullptr) profile.beside = on->beside();
  profile.latency *= stack.has_latency() ? stack.latency() : 1;
  profile.update_bytes *= stack.has_update_bytes() ? stack.update_bytes() : 1;
  profile.loss_bytes *= stack.has_loss_bytes() ? stack.loss_bytes() : 1;
  return profile;
}

CostProfile software_profile(const GpuModel& gpu, Attention kernels, const SoftwareStack& stack,
                             bool has_experts) {
  double own_rate = 1;
  if (kernels == Attention::flash_1 && stack.has_attention_flash_1()) {
    own_rate = stack.attention_flash_1();
  }
  if (kernels == Attention::flash_2 && stack.has_attention_flash_2()) {
    own_rate = stack.attention_flash_2();
  }
  const auto with_software = [&](const CostProfile& bare, const std::string& name,
                                 const std::string& family) {
    CostProfile on = apply(with_attention(bare, kernels), stack, name, family, has_experts);
    on.attention_rate *= own_rate;
    return on;
  };
  CostProfile profile = with_software(cost_profile(gpu), gpu.name, gpu.family);
  static const double hopper_peak = peak_of_hopper();
  const bool is_newer = gpu.bf16.value > hopper_peak && !has_transferred_attention(gpu.family);
  const bool is_comparable = stack_on_gpu(stack, gpu.name, gpu.family) == nullptr ||
                             stack_on_gpu(stack, kHopper, kHopper) != nullptr;
  if (!is_newer || !is_comparable) return profile;
  const CostProfile older = with_software(cost_profile(kHopper), kHopper, kHopper);
  profile.attention_least = {{hopper_peak * older.attention_rate * older.attention_peak},
                             older.attention_half,
                             older.attention_backward};
  return profile;
}

double grouped_rate(const GpuModel& gpu, const SoftwareStack& stack) {
  const StackOnGpu* on = stack_on_gpu(stack, gpu.name, gpu.family);
  return on != nullptr && on->has_grouped() ? on->grouped() : 1;
}

const GroupShape& BlockGroups::of(Communicator which) const {
  if (which == Communicator::context) return context;
  if (which == Communicator::expert) return expert;
  ensure(which == Communicator::tensor,
         "a collective inside a block uses a tensor, context or expert communicator");
  return tensor;
}

BlockGroups group_links(const Cluster& cluster, GroupShape tensor, GroupShape context,
                        GroupShape expert) {
  const Cluster::Shape& shape = cluster.shape();
  return {
      .tensor = tensor,
      .context = context,
      .expert = expert,
      .nvlink_latency = shape.nvlink_latency,
      .network_latency = shape.nic_latency + shape.hop_latency * 2,
      .network = shape.nic_bandwidth * double(shape.nics_per_node) / double(shape.gpus_per_node)};
}

ReplicaGroups replica_groups(const StepGraph& graph, const Cluster& cluster,
                             const std::vector<GpuId>& placement) {
  const auto of = [&](Communicator which) {
    return least_per_node(graph, cluster, placement, which);
  };
  return {of(Communicator::tensor), of(Communicator::context), of(Communicator::expert)};
}

bool is_within_replicas(const StepGraph& graph) {
  return graph.communicator_size(Communicator::expert) == 1;
}

ReplicaGroups ReplicaGroups::of(const std::vector<std::uint32_t>& replicas) const {
  const auto chosen = [&replicas](const std::vector<std::uint32_t>& all) {
    std::vector<std::uint32_t> some;
    for (const std::uint32_t replica : replicas) {
      if (!all.empty()) some.push_back(all[replica]);
    }
    return some;
  };
  return {chosen(tensor), chosen(context), chosen(expert)};
}

BlockGroups block_groups(const StepGraph& graph, const Cluster& cluster,
                         const ReplicaGroups& groups) {
  return group_links(cluster, shape_of(graph, Communicator::tensor, groups.tensor),
                     shape_of(graph, Communicator::context, groups.context),
                     shape_of(graph, Communicator::expert, groups.expert));
}

BlockGroups block_groups(const StepGraph& graph, const Cluster& cluster,
                         const std::vector<GpuId>& placement) {
  return block_groups(graph, cluster, replica_groups(graph, cluster, placement));
}

Precision supported_precision(const GpuModel& gpu, Precision precision) {
  if (precision == Precision::fp4 && gpu.fp4.value <= 0) precision = Precision::fp8;
  if (precision == Precision::fp8 && gpu.fp8.value <= 0) precision = Precision::bf16;
  if (precision == Precision::bf16 && gpu.bf16.value <= 0) precision = Precision::fp32;
  if (precision == Precision::tf32 && gpu.tf32.value <= 0) precision = Precision::fp32;
  return precision;
}

BlockPrice price(const Block& block, const GpuModel& gpu, Precision precision,
                 const BlockGroups& groups, const CostProfile& profile) {
  BlockPrice sum;
  for (const Kernel& kernel : block.kernels) sum.moved += kernel.bytes * kernel.repeat;
  if (block.declared > 0) {
    sum.compute = sum.products = {to_seconds(block.declared)};
    return sum;
  }
  std::map<KernelName, Seconds> by_name;
  for (const Kernel& kernel : block.kernels) {
    const Seconds all = kernel_time(kernel, gpu, precision, profile) * kernel.repeat;
    by_name[kernel.name] += all;
    sum.compute += all;
    (kernel.kind == Kernel::Kind::memory_bound ? sum.memory : sum.products) += all;
  }
  sum.compute += profile.layer_gap * block.layers + profile.expert_gap * block.expert_layers;
  sum.tensor = exposed(block, by_name, Links(gpu, groups, profile));
  const Seconds launching = profile.layer_host * block.launches;
  sum.tensor = std::max(sum.tensor, launching - sum.compute);
  return sum;
}

RingCost ring_all_reduce(std::uint32_t n) { return {2.0 * (n - 1), 2.0 * (n - 1) / n}; }
RingCost ring_half(std::uint32_t n) { return {1.0 * (n - 1), 1.0 * (n - 1) / n}; }

Precision product_precision(JobPrecision precision) {
  switch (precision) {
    case JobPrecision::fp32: return Precision::fp32;
    case JobPrecision::fp8:
    case JobPrecision::mxfp8: return Precision::fp8;
    case JobPrecision::nvfp4: return Precision::fp4;
    default: return Precision::bf16;
  }
}

}  // namespace orrery::estimates
