#include "live/training/cuda_device.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/machine/cuda_module.hpp"
#include "live/training/model.hpp"
#include "live/training/token_gather.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/model.hpp"

namespace orrery::live {
namespace {

using M = BuiltinTransformer;

class GpuDevice : public Device {
 public:
  GpuDevice(const OrreryCudaTable& module, int device, std::uint64_t seed, double learning_rate)
      : module_(module),
        learning_rate_(learning_rate),
        network_(make_network("transformer", Rng(seed).split_stream("parameters"))),
        gradient_(network_->parameters().size(), 0.0F) {
    const OrreryShape shape{M::layers, M::hidden, M::heads, M::feed_forward, M::vocabulary};
    check(module_.transformer_open(&shape, device, &model_));
    try {
      ensure(module_.transformer_size(model_) == gradient_.size(),
             "the model has as many parameters on the GPU as on the CPU");
      write(ORRERY_PARAMETERS, network_->parameters());
      checksum_.add(std::as_const(*network_).parameters(), 0);
    } catch (...) {
      module_.transformer_close(model_);
      throw;
    }
  }
  ~GpuDevice() override { module_.transformer_close(model_); }
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  void zero_gradient() override {
    check(module_.transformer_zero_gradient(model_));
    newest_ = Newest::device;
  }
  double accumulate_gradient(const Batch& batch) override {
    ensure(batch.length() > 1 && batch.sequences * batch.length() == batch.bytes.size(),
           "sequences of equal length, each with a byte to predict");
    bring_to_device();
    double loss = 0;
    check(module_.transformer_accumulate(model_, batch.bytes.data(), batch.sequences,
                                         batch.length() - 1, &loss));
    count(batch);
    return loss;
  }
  GatherCount gather_count() const override { return gathered_; }
  std::span<float> gradient() override {
    if (newest_ == Newest::device)
      check(module_.transformer_read(model_, ORRERY_GRADIENT, gradient_.data()));
    newest_ = Newest::host;
    return gradient_;
  }
  std::span<const Tensor> tensors() const override { return network_->tensors(); }
  void update(float scale, double rate_factor) override {
    bring_to_device();
    const float rate = adam_rate(learning_rate_ * rate_factor, ++steps_);
    OrreryChecksum change{};
    check(module_.transformer_update(model_, rate, scale, &change));
    checksum_ += Checksum(change.sum, change.weighted);
  }
  std::string parameters_sha256() const override {
    check(module_.transformer_read(model_, ORRERY_PARAMETERS, network_->parameters().data()));
    return live::parameters_sha256(*network_);
  }
  /// Returns the state in the CPU device's format: parameters, steps, both moments.
  std::string state() const override {
    std::string state;
    append(state, ORRERY_PARAMETERS);
    state.append(reinterpret_cast<const char*>(&steps_), sizeof steps_);
    append(state, ORRERY_MEAN);
    append(state, ORRERY_SQUARE);
    return state;
  }
  void set_state(std::string_view state) override {
    const std::size_t part = gradient_.size() * sizeof(float);
    ensure(state.size() == 3 * part + sizeof steps_, "a state is that of this model");
    std::vector<float> parameters(gradient_.size()), mean(parameters), square(parameters);
    const auto take = [&](void* to, std::size_t size) {
      std::memcpy(to, state.data(), size);
      state.remove_prefix(size);
    };
    take(parameters.data(), part);
    take(&steps_, sizeof steps_);
    take(mean.data(), part);
    take(square.data(), part);
    write(ORRERY_PARAMETERS, parameters);
    write(ORRERY_MEAN, mean);
    write(ORRERY_SQUARE, square);
    // From the values in host memory, so that damage on the way to the device shows.
    checksum_ = Checksum();
    checksum_.add(parameters, 0);
    checksum_.add_moments(mean, square, 0);
  }
  std::optional<Checksum> state_checksum() const override { return checksum_; }
  bool is_state_intact() const override {
    OrreryChecksum found{};
    check(module_.transformer_checksum(model_, &found));
    return Checksum(found.sum, found.weighted) == checksum_;
  }

 private:
  /// Place of the gradient's newest values: a holder of the span may have written to it.
  enum class Newest { device, host };

  void check(int status) const {
    if (status == 0) return;
    throw Error(ErrorKind::environment, fmt::format("training on the GPU: {}", module_.why()));
  }
  void write(OrreryPart which, std::span<const float> values) {
    check(module_.transformer_write(model_, which, values.data()));
  }
  void append(std::string& state, OrreryPart which) const {
    std::vector<float> values(gradient_.size());
    check(module_.transformer_read(model_, which, values.data()));
    state.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  void bring_to_device() {
    if (newest_ == Newest::host) write(ORRERY_GRADIENT, gradient_);
    newest_ = Newest::device;
  }
  /// Counts traffic as Transformer does: a row read for every token, its gradient written.
  void count(const Batch& batch) {
    std::vector<std::uint8_t> inputs;
    for (std::size_t i = 0; i < batch.sequences; ++i) {
      const auto piece = batch.bytes.subspan(i * batch.length(), batch.length() - 1);
      inputs.insert(inputs.end(), piece.begin(), piece.end());
    }
    const double row = 2.0 * sizeof(float) * M::hidden;
    gathered_.used += row * static_cast<double>(inputs.size());
    gathered_.read += row * static_cast<double>(TokenGather(inputs).rows().size());
  }

  const OrreryCudaTable& module_;
  const double learning_rate_;
  const std::unique_ptr<Network<float>> network_;  ///< names and order of the tensors
  OrreryTransformer* model_ = nullptr;
  std::vector<float> gradient_;
  Newest newest_ = Newest::device;
  std::uint64_t steps_ = 0;
  Checksum checksum_;  ///< running checksum of parameters and moments
  GatherCount gathered_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(const OrreryCudaTable& module, int device,
                                         std::uint64_t seed, double learning_rate) {
  return std::make_unique<GpuDevice>(module, device, seed, learning_rate);
}

std::unique_ptr<Device> make_cuda_device(const std::string& module_path, int device,
                                         std::uint64_t seed, double learning_rate,
                                         const std::string& builtin, std::string& reason) {
  if (find_named<BuiltinKind>(builtin) != BuiltinKind::transformer) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format("job.model.builtin: {} is trained by CPUs only; use transformer", builtin));
  }
  const CudaProbe probe = probe_cuda(module_path);
  reason = probe.reason;
  if (!probe.module_loaded || probe.devices == 0) return nullptr;
  if (device < 0 || static_cast<std::uint32_t>(device) >= probe.devices) {
    reason = fmt::format("there is no GPU {}: {} found", device, probe.devices);
    return nullptr;
  }
  const OrreryCudaTable* table = load_cuda_table(module_path, reason);
  if (!table) return nullptr;
  if (!table->transformer_open) {
    reason = "the CUDA module was built without nvcc: it has no kernels";
    return nullptr;
  }
  return make_cuda_device(*table, device, seed, learning_rate);
}

}  // namespace orrery::live
