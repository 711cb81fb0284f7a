// gpu_check SECTION: see gpu_check.hpp. Exit code 0: holds, 1: does not, 4: cannot run here.
#include "tests/live/gpu_check.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "live/machine/cuda_module.hpp"
#include "live/machine/nvml.hpp"
#include "live/training/cuda_codec.hpp"
#include "live/training/cuda_device.hpp"
#include "tests/live/codec/all_rules.hpp"
#include "tests/live/cuda/flips_on_device.hpp"

namespace orrery::live::gpu_check {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::unique_ptr<CudaCodecs> open_codecs() {
  std::string reason;
  auto codecs = CudaCodecs::open(cuda_module_path(), reason);
  if (!codecs) throw Missing{reason};
  return codecs;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// Compares the results of three steps, with values of one kind or another in between.
bool same_as_cpu(const CudaCodecs& gpu, const CodecRule& rule, std::size_t count, float odd_one) {
  const auto cpu = make_codec(rule);
  CodecState on_cpu, on_gpu;
  for (unsigned step = 0; step < 3; ++step) {
    std::vector<float> values = gradient_like(count, Rng(count + step));
    if (step == 1 && count > 5) values[5] = odd_one;
    std::vector<std::byte> expected(cpu->encoded_size(count)), code(expected.size());
    std::vector<float> decoded(count), wanted(count);
    cpu->encode_values(values, on_cpu, expected);
    gpu.encode_values(rule, values, on_gpu, code);
    cpu->decode_values(expected, wanted);
    gpu.decode_values(rule, code, decoded);
    if (code != expected || !same_bits(on_cpu.residual, on_gpu.residual) ||
        !same_bits(on_cpu.basis, on_gpu.basis) || !same_bits(decoded, wanted)) {
      fmt::print("{}: {} values differ from the CPU's at step {}\n", name_of(rule), count, step);
      return false;
    }
  }
  return true;
}

}  // namespace

bool check_codecs() {
  const auto gpu = open_codecs();
  std::vector<std::size_t> sizes = odd_sizes();
  sizes.push_back(1'000'003);
  bool equal = true;
  for (const CodecRule& rule : all_rules()) {
    std::size_t good = 0, tried = 0;
    for (const std::size_t count : sizes) {
      for (const float odd_one : {1e30F, std::numeric_limits<float>::denorm_min()}) {
        good += same_as_cpu(*gpu, rule, count, odd_one) ? 1 : 0;
        ++tried;
      }
    }
    fmt::print("{:<40} {} of {} byte for byte as on the CPU\n", name_of(rule), good, tried);
    equal &= good == tried;
  }
  return equal;
}

bool time_codecs() {
  constexpr std::size_t kValues = std::size_t{64} << 20;
  constexpr double kTarget = 0.85;
  const auto gpu = open_codecs();
  fmt::print("{} MiB of fp32; share: memory traffic / that of a copy; target {:.0f}%\n",
             4 * kValues >> 20, 100 * kTarget);
  fmt::print("{:<30} {:>11} {:>11} {:>11} {:>7} {:>7}\n", "codec", "encode GB/s", "decode GB/s",
             "copy GB/s", "share", "share");
  bool reached = true;
  for (const CodecRule& rule : all_rules()) {
    const OrreryCodecSpeed speed = gpu->speed(rule, kValues);
    const double encode = speed.encode_moved / speed.copy;
    const double decode = speed.decode_moved / speed.copy;
    // A choice among all values, factorisations and blocks that do not fit into shared memory pass
    // over the values several times: shown, but the bandwidth of one pass is no target for them.
    constexpr double kMostAtOnce = 2048;
    const bool one_pass = rule.codec != Codec::top_k && rule.codec != Codec::power_sgd &&
                          parameter_of(rule) <= kMostAtOnce;
    const bool good = !one_pass || std::min(encode, decode) >= kTarget;
    fmt::print("{:<30} {:>11.0f} {:>11.0f} {:>11.0f} {:>6.0f}% {:>6.0f}% {}\n", name_of(rule),
               speed.encode / 1e9, speed.decode / 1e9, speed.copy / 1e9, 100 * encode, 100 * decode,
               !one_pass ? "(several passes)"
               : good    ? ""
                         : "below the target");
    reached &= good;
  }
  return reached;
}

bool check_transformer() {
  constexpr double kRate = 0.003, kMost = 1e-3;
  std::string reason;
  const auto gpu = make_cuda_device(cuda_module_path(), 0, 7, kRate, "transformer", reason);
  if (!gpu) throw Missing{reason};
  const auto cpu = make_cpu_device(7, kRate, "transformer");
  std::vector<std::uint8_t> bytes(8 * 65);
  Rng rng(1);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(rng.below(256));
  bool good = gpu->parameters_sha256() == cpu->parameters_sha256();
  for (int step = 0; step < 5; ++step) {
    double loss = 0, loss_there = 0, worst = 0, largest = 0;
    for (Device* device : {cpu.get(), gpu.get()}) {
      device->zero_gradient();
      loss_there = device->accumulate_gradient({.bytes = bytes, .sequences = 8});
      if (device == cpu.get()) loss = loss_there;
    }
    const auto expected = cpu->gradient();
    const auto found = gpu->gradient();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      worst = std::max(worst, std::abs(double{found[i]} - expected[i]));
      largest = std::max(largest, std::abs(double{expected[i]}));
    }
    const double off = std::abs(loss_there / loss - 1);
    fmt::print(
        "step {}: loss {:.5f}, on the GPU {:+.2e} of it; gradient at most {:.2e} of its "
        "largest value apart\n",
        step, loss / 512, loss_there / loss - 1, worst / largest);
    good &= off < kMost && worst / largest < kMost;
    cpu->update(1.0F / 512, 1);
    gpu->set_state(cpu->state());  // separates the steps' comparisons
  }
  return good;
}

namespace {

/// Prints the times of an update with its checksum and of a verification, of a larger transformer.
void time_checks(const OrreryCudaTable& module) {
  const OrreryShape shape{12, 1024, 16, 2816, 256};
  OrreryTransformer* model = nullptr;
  const auto check = [&](int status) {
    if (status != 0) throw Error(ErrorKind::environment, module.why());
  };
  check(module.transformer_open(&shape, 0, &model));
  const std::unique_ptr<OrreryTransformer, void (*)(OrreryTransformer*)> owner(
      model, module.transformer_close);
  const auto milliseconds = [&](const auto& work) {
    std::vector<double> seconds;
    for (int i = 0; i < 20; ++i) {
      const auto start = std::chrono::steady_clock::now();
      OrreryChecksum sums{};
      check(work(&sums));
      seconds.push_back(seconds_since(start));
    }
    return 1e3 * median_of(seconds).value;
  };
  fmt::print(
      "{:.0f} million parameters: update with checksum {:.3f} ms, verification {:.3f} ms\n",
      1e-6 * static_cast<double>(module.transformer_size(model)),
      milliseconds([&](OrreryChecksum* sums) {
        return module.transformer_update(model, 1e-3F, 1.0F, sums);
      }),
      milliseconds([&](OrreryChecksum* sums) { return module.transformer_checksum(model, sums); }));
}

}  // namespace

bool find_damage() {
  constexpr int kFlips = 100;
  std::string reason = probe_cuda().reason;
  const OrreryCudaTable* const table = load_cuda_table(cuda_module_path(), reason);
  if (!table || !reason.empty()) throw Missing{reason};
  if (!table->transformer_open) throw Missing{"the CUDA module has no kernels"};
  const WatchedModule module(*table);
  const auto device = make_cuda_device(module.table, 0, 7, 0.003);
  const int found = count_found_flips(module, *device, kFlips);
  fmt::print("{} of {} flipped bits found in the step, no damage seen without one\n", found,
             kFlips);
  time_checks(*table);
  return found == kFlips;
}

namespace {

double time_step(const OrreryCudaTable& module, const StepSize& size) {
  const OrreryShape shape{size.layers, size.hidden, size.heads, size.wide, 256};
  OrreryTransformer* model = nullptr;
  const auto check = [&](int status) {
    if (status != 0) throw Error(ErrorKind::environment, module.why());
  };
  check(module.transformer_open(&shape, 0, &model));
  const std::unique_ptr<OrreryTransformer, void (*)(OrreryTransformer*)> owner(
      model, module.transformer_close);
  std::vector<float> parameters(module.transformer_size(model));
  Rng rng(1);
  for (float& value : parameters) value = static_cast<float>(0.02 * (rng.uniform() - 0.5));
  check(module.transformer_write(model, ORRERY_PARAMETERS, parameters.data()));
  std::vector<std::uint8_t> bytes(size.sequences * (size.length + 1));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(rng.below(256));
  std::vector<double> seconds;
  for (int i = 0; i < 10; ++i) {
    double loss = 0;
    const auto start = std::chrono::steady_clock::now();
    check(module.transformer_accumulate(model, bytes.data(), size.sequences, size.length, &loss));
    if (i >= 3) seconds.push_back(seconds_since(start));
  }
  return median_of(seconds).value;
}

}  // namespace

bool predict_steps() {
  constexpr double kMost = 0.10;
  static const std::vector<StepSize> kCalibrate{
      {2, 512, 8, 1408, 4, 512},    {2, 1024, 16, 2816, 4, 512},  {4, 1024, 16, 2816, 4, 1024},
      {8, 512, 8, 1408, 8, 512},    {2, 2048, 16, 5632, 2, 1024}, {4, 512, 8, 1408, 2, 2048},
      {4, 2048, 32, 5632, 4, 512},  {1, 1024, 8, 2816, 8, 1024},  {6, 768, 12, 2048, 8, 512},
      {2, 1024, 16, 2816, 1, 2048}, {3, 1536, 24, 4096, 2, 768}};
  static const std::vector<StepSize> kPredict{{4, 768, 12, 2048, 4, 1024},
                                              {6, 1024, 16, 2816, 6, 512},
                                              {3, 2048, 16, 5632, 4, 768},
                                              {5, 1536, 24, 4096, 3, 512},
                                              {8, 1024, 16, 2816, 2, 1536}};
  std::string reason = probe_cuda().reason;
  const OrreryCudaTable* const module = load_cuda_table(cuda_module_path(), reason);
  if (!module || !reason.empty()) throw Missing{reason};
  if (!module->transformer_open) throw Missing{"the CUDA module has no kernels"};
  std::vector<double> seconds;
  for (const StepSize& size : kCalibrate) seconds.push_back(time_step(*module, size));
  const std::vector<double> coefficients = fit(kCalibrate, seconds);
  fmt::print(
      "calibrated on {} steps (fp32): {:.1f} TFLOP/s products, {:.1f} TFLOP/s attention, "
      "{:.0f} GB/s, {:.1f} us a call (inf: not told apart from the rest)\n",
      kCalibrate.size(), 1e-12 / coefficients[0], 1e-12 / coefficients[1], 1e-9 / coefficients[2],
      1e6 * coefficients[4]);
  fmt::print("{:>6} {:>6} {:>9} {:>6} {:>12} {:>12} {:>7}\n", "layers", "hidden", "sequences",
             "length", "predicted ms", "measured ms", "error");
  std::vector<double> errors;
  for (const StepSize& size : kPredict) {
    const double measured = time_step(*module, size), expected = predict(size, coefficients);
    errors.push_back(std::abs(expected / measured - 1));
    fmt::print("{:>6} {:>6} {:>9} {:>6} {:>12.3f} {:>12.3f} {:>+6.1f}%\n", size.layers, size.hidden,
               size.sequences, size.length, 1e3 * expected, 1e3 * measured,
               100 * (expected / measured - 1));
  }
  std::sort(errors.begin(), errors.end());
  fmt::print("median error {:.1f}%, goal at most {:.0f}%\n", 100 * errors[errors.size() / 2],
             100 * kMost);
  return errors[errors.size() / 2] <= kMost;
}

namespace {

struct Section {
  const char* name;
  bool (*run)();
  const char* title;
};

constexpr std::array kSections{
    Section{"codecs", check_codecs, "Codecs, byte for byte as on the CPU"},
    Section{"codec-speed", time_codecs, "Codecs against the bandwidth of a copy"},
    Section{"transformer", check_transformer, "Transformer: loss and gradient against the CPU"},
    Section{"damage", find_damage, "Damage in the memory of the GPU is found"},
    Section{"prediction", predict_steps, "Steps predicted that were not calibrated on"},
    Section{"nccl-one", run_one_rank, "NCCL with one rank"},
    Section{"nccl-ranks", run_ranks, "NCCL with 2 to 4 ranks"},
    Section{"nccl-join", join_after_kill, "NCCL: kill -9 of a rank, abort and join anew"},
    Section{"overhead", measure_overhead, "Fabric against NCCL called directly, 64 MiB"},
};

int print_device() {
  const CudaProbe probe = probe_cuda();
  if (!probe.reason.empty()) throw Missing{probe.reason};
  for (const CudaDevice& device : probe.list) {
    fmt::print("{}, {:.0f} GiB, {} multiprocessors; ", device.name, device.memory_bytes / (1 << 30),
               device.multiprocessors);
  }
  std::string reason;
  const auto nvml = Nvml::open(kNvmlLibrary, reason);
  fmt::print("driver {}; CUDA {}; NCCL {}\n", nvml ? nvml->driver_version() : probe.driver_version,
             probe.runtime_version, probe.nccl_version);
  return 0;
}

int run(const std::string& program, const std::string& name) {
  if (name == "rank") return serve_rank(program);
  if (name == "device") return print_device();
  if (name == "--list") {
    for (const Section& section : kSections) fmt::print("{} {}\n", section.name, section.title);
    return 0;
  }
  for (const Section& section : kSections) {
    if (name == section.name) return section.run() ? 0 : 1;
  }
  fmt::print(stderr, "gpu_check --list says which sections there are\n");
  return static_cast<int>(ErrorKind::usage);
}

}  // namespace
}  // namespace orrery::live::gpu_check

int main(int count, char** values) {
  namespace gpu_check = orrery::live::gpu_check;
  setvbuf(stdout, nullptr, _IOLBF, 0);  // keeps what a section said before its time limit
  try {
    return gpu_check::run(values[0], count == 2 ? values[1] : "");
  } catch (const gpu_check::Missing& missing) {
    fmt::print("{}\n", missing.reason);
    return static_cast<int>(orrery::ErrorKind::environment);
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
