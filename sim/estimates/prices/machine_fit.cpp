#include "sim/estimates/prices/machine_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/machine.hpp"

namespace orrery::estimates {
namespace {

using Product = MachineMeasurements::Product;
using Sum = MachineMeasurements::Sum;

Kernel kernel_of(const Product& product) {
  const double m = product.m(), n = product.n(), k = product.k();
  return {.kind = Kernel::Kind::gemm, .m = m, .n = n, .k = k, .flop = Flop{2 * m * n * k},
          .bytes = Bytes{4 * (m * k + k * n + m * n)}};
}

GpuModel model_of(const GpuSpec& spec) {
  GpuModel model;
  model.memory_bandwidth = {spec.memory_bandwidth()};
  model.fp32 = {spec.fp32()};
  return model;
}

double predicted(const Product& product, const GpuSpec& processor, const KernelProfile& kernels) {
  return price(Block{.kernels = {kernel_of(product)}}, model_of(processor), Precision::fp32, {},
               cost_profile(kernels))
      .compute.value;
}

double error_of(const MachineMeasurements& measured, const GpuSpec& processor,
                const KernelProfile& kernels) {
  double sum = 0;
  for (const Product& each : measured.products()) {
    sum += std::abs(std::log(predicted(each, processor, kernels) / each.seconds()));
  }
  return sum / std::max(1, measured.products_size());
}

/// A grid search suffices for four coefficients and few measurements.
void fit_products(const MachineMeasurements& measured, const GpuSpec& processor,
                  KernelProfile& kernels) {
  KernelProfile best = kernels;
  double least = std::numeric_limits<double>::infinity();
  for (const double loss : {0.0, 8.0, 16.0, 32.0, 64.0, 128.0}) {
    for (const double half_k : {0.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0}) {
      for (const double start : {0.0, 1e-7, 3e-7, 1e-6, 3e-6, 1e-5}) {
        for (double peak = 1; peak > 0.3; peak -= 0.05) {
          kernels.set_gemm_tile_loss(loss);
          kernels.set_gemm_half_k(half_k);
          kernels.set_gemm_start(start);
          kernels.set_gemm_peak(peak);
          const double error = error_of(measured, processor, kernels);
          if (error >= least) continue;
          least = error;
          best = kernels;
        }
      }
    }
  }
  kernels = best;
  kernels.set_gemm_low_peak(best.gemm_peak());
}

GpuSpec processor_of(const MachineMeasurements& measured) {
  double fastest = 1e9;
  for (const Product& each : measured.products()) {
    fastest = std::max(fastest, kernel_of(each).flop.value / each.seconds());
  }
  GpuSpec spec;
  spec.set_name("core");
  spec.set_memory(std::max(1e9, measured.memory() / std::max(1u, measured.cores())));
  spec.set_memory_bandwidth(std::max(1e9, measured.copy_rate()));
  spec.set_fp32(1.1 * fastest);
  spec.set_bf16(1.1 * fastest);  // the built-in models compute in fp32
  spec.set_pcie(std::max(1e9, measured.copy_rate()));
  spec.set_idle_power(2);
  spec.set_max_power(15);
  spec.add_source("measured by `orrery calibrate`; its power is a round number for one core");
  return spec;
}

/// Values that are not measured: shares of 1, which leave the copy rate unchanged, and no
/// protocols.
KernelProfile plain_kernels() {
  KernelProfile kernels;
  kernels.set_name("core");
  kernels.add_gpus("core");
  kernels.set_gemm_processors(1);
  kernels.set_gemm_wave(1);
  kernels.set_gemm_overlap(2);
  kernels.set_gemm_memory(1);
  kernels.set_attention_peak(0.5);
  kernels.set_attention_half(0);
  kernels.set_attention_backward(0.5);
  for (const auto set : {&KernelProfile::set_norm, &KernelProfile::set_activation,
                         &KernelProfile::set_rotary, &KernelProfile::set_residual,
                         &KernelProfile::set_embedding, &KernelProfile::set_nvlink,
                         &KernelProfile::set_nvlink_all_reduce, &KernelProfile::set_network,
                         &KernelProfile::set_collective_ll, &KernelProfile::set_collective_ll128,
                         &KernelProfile::set_nvls, &KernelProfile::set_send}) {
    (kernels.*set)(1);
  }
  kernels.add_source("measured by `orrery calibrate`; attention and operators assumed");
  return kernels;
}

}  // namespace

RankLinks fit_links(std::uint32_t ranks, std::span<const Sum> sums) {
  ensure(ranks >= 2 && sums.size() >= 2, "a fit of links needs two ranks and two sizes at least");
  // t = rounds x latency + share x bytes / bandwidth; weighted by relative error.
  const double rounds = 2.0 * (ranks - 1), share = rounds / ranks;
  double xx = 0, xy = 0, yy = 0, xt = 0, yt = 0, least = std::numeric_limits<double>::infinity();
  for (const Sum& sum : sums) {
    const double x = rounds / sum.seconds(), y = share * sum.bytes() / sum.seconds();
    xx += x * x;
    xy += x * y;
    yy += y * y;
    xt += x;
    yt += y;
    least = std::min(least, sum.seconds());
  }
  const double determinant = xx * yy - xy * xy;
  double latency = determinant > 0 ? (xt * yy - yt * xy) / determinant : 0;
  latency = std::clamp(latency, 0.0, least / rounds);
  const double per_byte = std::max(1e-14, (yt - latency * xy) / yy);
  RankLinks links;
  links.set_ranks(ranks);
  links.set_latency(latency);
  links.set_bandwidth(std::max(1000.0, 1 / per_byte));
  return links;
}

MachineProfile fit_machine(const MachineMeasurements& measured) {
  MachineProfile machine;
  machine.set_name("this machine");
  *machine.mutable_processor() = processor_of(measured);
  *machine.mutable_kernels() = plain_kernels();
  fit_products(measured, machine.processor(), *machine.mutable_kernels());
  machine.set_update(measured.update());
  std::map<std::uint32_t, std::vector<Sum>> by_ranks;
  for (const Sum& sum : measured.sums()) by_ranks[sum.ranks()].push_back(sum);
  for (const auto& [ranks, sums] : by_ranks) *machine.add_links() = fit_links(ranks, sums);
  *machine.mutable_codecs() = measured.codecs();
  machine.add_source(fmt::format("{} cores, {:.1f} GiB; products off by {:.0f}% on average",
                                 measured.cores(), measured.memory() / (1u << 30),
                                 100 * product_error(measured, machine)));
  return machine;
}

double product_error(const MachineMeasurements& measured, const MachineProfile& fitted) {
  return error_of(measured, fitted.processor(), fitted.kernels());
}

}  // namespace orrery::estimates
