#include "sim/estimates/prices/measured_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "core/schema/yaml_loader.hpp"
#include "traces/workload/kernel_name.hpp"

namespace orrery::estimates {
namespace {

/// Shapes within 1% in every dimension are the same: routed tokens are rounded to whole tiles.
constexpr double kSame = 0.0145;
constexpr std::size_t kNearest = 4;
/// Launches of a permutation to the experts, at them, and back.
constexpr double kPermutations = 4;

/// Words of the file (topologies/kernels.proto).
enum class Pass : std::uint8_t { forward, data_gradient, weight_gradient };
constexpr std::array<std::string_view, 3> names_of(Pass) {
  return {"forward", "data-gradient", "weight-gradient"};
}
enum class AttentionPass : std::uint8_t { forward, backward };
constexpr std::array<std::string_view, 2> names_of(AttentionPass) {
  return {"forward", "backward"};
}
enum class StreamKind : std::uint8_t { other, permute, loss, fused_loss };
constexpr std::array<std::string_view, 4> names_of(StreamKind) {
  return {"other", "permute", "loss", "fused-loss"};
}

Pass pass_of(KernelName name) {
  const std::string_view text = name_of(name);
  if (text.ends_with("_dgrad")) return Pass::data_gradient;
  return text.ends_with("_wgrad") ? Pass::weight_gradient : Pass::forward;
}

double log2_of(double value) { return std::log2(std::max(1.0, value)); }

/// Unfused attention is made of products too, one for each head.
bool is_attention_product(KernelName name) { return name_of(name).starts_with("attention_"); }

/// Tokens, output and input of the forward product behind a kernel.
std::array<double, 4> product_logs(const Kernel& kernel) {
  const double m = log2_of(kernel.m), n = log2_of(kernel.n), k = log2_of(kernel.k),
               groups = log2_of(kernel.batch);
  switch (pass_of(kernel.name)) {
    case Pass::data_gradient: return {m, k, n, groups};
    case Pass::weight_gradient: return {k, n, m, groups};
    default: return {m, n, k, groups};
  }
}

Kernel kernel_of(const MeasuredProduct& product) {
  const double tokens = product.tokens(), output = product.output(), input = product.input();
  Kernel kernel{.kind = Kernel::Kind::gemm, .batch = double{1} * std::max(1u, product.groups())};
  double result = 2;
  switch (named<Pass>(product.pass())) {
    case Pass::forward:
      std::tie(kernel.m, kernel.n, kernel.k) = std::tuple(tokens, output, input);
      kernel.name = KernelName::qkv;
      break;
    case Pass::data_gradient:
      std::tie(kernel.m, kernel.n, kernel.k) = std::tuple(tokens, input, output);
      kernel.name = KernelName::qkv_dgrad;
      break;
    case Pass::weight_gradient:
      std::tie(kernel.m, kernel.n, kernel.k) = std::tuple(input, output, tokens);
      kernel.name = KernelName::qkv_wgrad;
      result = 8;  // sums in fp32 are read and written
      break;
  }
  const double m = kernel.m, n = kernel.n, k = kernel.k;
  kernel.flop = Flop{2 * m * n * k * kernel.batch};
  kernel.bytes = Bytes{((m * k + k * n) * 2 + m * n * result) * kernel.batch};
  return kernel;
}

/// Attention of whole sequences; a rank of a context group computes a share of their heads' work.
Kernel kernel_of(const MeasuredAttention& measured) {
  const double sequence = measured.sequence(), heads = measured.heads();
  const bool backward = named<AttentionPass>(measured.pass()) == AttentionPass::backward;
  const double values = measured.head() + measured.value();
  Kernel kernel{.kind = Kernel::Kind::attention,
                .m = sequence,
                .n = sequence,
                .k = double{1} * measured.head(),
                .batch = heads};
  kernel.flop = Flop{(backward ? 2 : 1) * heads * sequence * sequence * values};
  kernel.bytes = Bytes{(backward ? 2 : 1) * 2 * sequence * (heads + measured.kv_heads()) * values};
  kernel.name = backward ? KernelName::attention_backward : KernelName::attention;
  return kernel;
}

/// Sequence, heads as if each had all queries of its sequence, and size of a head. A document mask
/// shortens the sequence.
std::array<double, 4> attention_logs(const Kernel& kernel) {
  return {log2_of(kernel.n), log2_of(kernel.batch * kernel.m / std::max(1.0, kernel.n)),
          2 * log2_of(kernel.k), 0};
}

}  // namespace

MeasuredKernels::MeasuredKernels(const KernelMeasurements& from)
    : gpu_(from.gpu()), collectives_(from.collectives().begin(), from.collectives().end()) {
  const double sustained = from.has_sustained() ? from.sustained() : 1;
  for (const MeasuredProduct& each : from.products()) {
    auto& kind = each.groups() > 1 ? grouped_ : products_;
    const Kernel kernel = kernel_of(each);
    kind.at(static_cast<std::size_t>(named<Pass>(each.pass())))
        .push_back({product_logs(kernel), each.time() / sustained, kernel});
  }
  for (const MeasuredAttention& each : from.attention()) {
    const Kernel kernel = kernel_of(each);
    attention_.at(static_cast<std::size_t>(named<AttentionPass>(each.pass())))
        .push_back({attention_logs(kernel), each.time() / sustained, kernel});
  }
  std::array<int, 4> counts{};
  const std::array<Stream*, 4> kinds = {&other_, &permute_, &loss_, &fused_loss_};
  for (const MeasuredStream& each : from.streams()) {
    // The mean of several: both directions of a permutation.
    const auto kind = static_cast<std::size_t>(named<StreamKind>(each.kind()));
    Stream& stream = *kinds.at(kind);
    const double count = ++counts.at(kind);
    stream.each += (1 / each.bandwidth() - stream.each) / count;
    stream.start += (each.start() - stream.start) / count;
  }
}

Seconds MeasuredKernels::near(const Shapes& shapes, const std::array<double, 4>& logs,
                              const Kernel& kernel, Seconds modelled, const Model& model) const {
  if (shapes.empty() || kernel.flop.value <= 0) return modelled;
  std::array<std::pair<double, const Shape*>, kNearest> best{};
  std::size_t count = 0;
  double same = 0, seconds = 0;
  for (const Shape& shape : shapes) {
    double square = 0, largest = 0;
    for (std::size_t i = 0; i < logs.size(); ++i) {
      const double apart = std::abs(shape.logs[i] - logs[i]);
      square += apart * apart;
      largest = std::max(largest, apart);
    }
    if (largest <= kSame) {
      same += 1;
      seconds += shape.seconds * (kernel.flop.value / shape.kernel.flop.value);
      continue;
    }
    if (count == kNearest && square >= best.back().first) continue;
    std::size_t at = count < kNearest ? count++ : kNearest - 1;
    for (; at > 0 && best[at - 1].first > square; --at) best[at] = best[at - 1];
    best[at] = {square, &shape};
  }
  if (same > 0) return Seconds{seconds / same};
  double weights = 0, sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double weight = 1 / best[i].first;
    weights += weight;
    sum += weight * std::log(best[i].second->seconds / model(best[i].second->kernel).value);
  }
  return modelled * std::exp(sum / weights);
}

Seconds MeasuredKernels::product(const Kernel& kernel, Seconds modelled, const Model& model) const {
  if (is_attention_product(kernel.name)) return modelled;
  const auto& kind = kernel.batch > 1 ? grouped_ : products_;
  return near(kind.at(static_cast<std::size_t>(pass_of(kernel.name))), product_logs(kernel), kernel,
              modelled, model);
}

Seconds MeasuredKernels::attention(const Kernel& kernel, Seconds modelled,
                                   const Model& model) const {
  const bool backward = kernel.name == KernelName::attention_backward;
  return near(attention_.at(backward ? 1 : 0), attention_logs(kernel), kernel, modelled, model);
}

/// A fused loss reads and writes the logits once in 16 bits, forward and backward.
Seconds MeasuredKernels::stream(const Kernel& kernel, Bytes bytes, Seconds modelled) const {
  constexpr double kFusedBytes = 4;
  const auto of = [](const Stream& stream, double moved, double launches = 1) {
    return Seconds{moved * stream.each + launches * stream.start};
  };
  switch (kernel.name) {
    case KernelName::permute:
      if (permute_.each > 0) return of(permute_, bytes.value, kPermutations);
      break;
    case KernelName::loss:
    case KernelName::loss_backward:
      if (fused_loss_.each > 0 && kernel.m > 0) return of(fused_loss_, kFusedBytes * kernel.m);
      if (loss_.each > 0) return of(loss_, bytes.value);
      break;
    default: break;
  }
  return other_.each > 0 ? of(other_, bytes.value) : modelled;
}

Seconds MeasuredKernels::time(const Kernel& kernel, Bytes bytes, Seconds modelled,
                              const Model& model) const {
  switch (kernel.kind) {
    case Kernel::Kind::gemm: return product(kernel, modelled, model);
    case Kernel::Kind::attention: return attention(kernel, modelled, model);
    case Kernel::Kind::memory_bound: return stream(kernel, bytes, modelled);
    default: return modelled;
  }
}

std::optional<Seconds> MeasuredKernels::collective(BlockCollective::Kind kind, Bytes bytes,
                                                   std::uint32_t ranks) const {
  using Kind = BlockCollective::Kind;
  const auto named = [kind]() -> std::string_view {
    switch (kind) {
      case Kind::all_reduce: return "all-reduce";
      case Kind::all_gather: return "all-gather";
      case Kind::reduce_scatter: return "reduce-scatter";
      case Kind::all_to_all: return "all-to-all";
      default: return {};
    }
  };
  const MeasuredCollective* found = nullptr;
  for (const MeasuredCollective& each : collectives_) {
    if (each.kind() != named()) continue;
    if (each.ranks() == ranks || (each.ranks() == 0 && found == nullptr)) found = &each;
  }
  if (found == nullptr) return std::nullopt;
  const double halves = kind == Kind::all_reduce ? 2 : 1;
  const double rounds = halves * (ranks - 1.0);
  return Seconds{found->start() + rounds * found->round() +
                 rounds / ranks * bytes.value / found->bandwidth()};
}

double MeasuredKernels::ring_share(const GpuModel& gpu, bool reduces) const {
  const BytesPerSecond rate = gpu.nvlink.value > 0 ? gpu.nvlink : gpu.pcie;
  for (const MeasuredCollective& each : collectives_) {
    if (each.kind() != (reduces ? "all-reduce" : "all-gather")) continue;
    return std::min(2.0, each.bandwidth() / rate.value);
  }
  return 0;
}

void MeasuredKernels::check_gpu(const GpuModel& gpu) const {
  if (gpu.name == gpu_ || gpu.name.starts_with(gpu_ + "-")) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("expected GPUs of the model {} whose kernels were measured (--kernels), "
                          "found {}: leave --kernels out, or measure this GPU",
                          gpu_, gpu.name));
}

KernelMeasurements load_kernel_measurements(const std::string& path) {
  KernelMeasurements measured;
  try {
    load_yaml_file(path, measured);
  } catch (const Error& error) {
    if (!error.source_place()) throw;
    throw Error(*error.source_place(),
                error.message() + "; expected a file that `orrery calibrate --kernels` wrote");
  }
  fill_defaults(measured);
  return measured;
}

std::shared_ptr<const MeasuredKernels> load_measured_kernels(const std::string& path) {
  if (path.empty()) return nullptr;
  return std::make_shared<const MeasuredKernels>(load_kernel_measurements(path));
}

}  // namespace orrery::estimates
