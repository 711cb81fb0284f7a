#include <cstring>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "live/training/device.hpp"
#include "live/training/model.hpp"

namespace orrery::live {
namespace {

class CpuDevice : public Device {
 public:
  CpuDevice(const std::string& builtin, std::uint64_t seed, double learning_rate)
      : model_(make_network(builtin, Rng(seed).split_stream("parameters"))),
        learning_rate_(learning_rate),
        sums_(count_state()) {}

  void zero_gradient() override { model_->zero_gradient(); }
  double accumulate_gradient(const Batch& batch) override {
    return model_->accumulate_gradient(batch);
  }
  GatherCount gather_count() const override { return model_->gather_count(); }
  std::span<float> gradient() override { return model_->gradient(); }
  std::span<const Tensor> tensors() const override { return model_->tensors(); }
  std::span<float> parameters() override { return model_->parameters(); }
  void update(float scale, double rate_factor) override {
    optimizer().update(model_->parameters(), model_->gradient(), scale, 0, sums_, rate_factor);
  }
  std::string parameters_sha256() const override { return live::parameters_sha256(*model_); }
  std::string state() const override {
    const std::span<const float> parameters = std::as_const(*model_).parameters();
    std::string state(reinterpret_cast<const char*>(parameters.data()), parameters.size_bytes());
    if (optimizer_) {
      optimizer_->append_state(state);
    } else {
      Adam(parameters.size(), learning_rate_).append_state(state);
    }
    return state;
  }
  std::optional<Checksum> state_checksum() const override { return total(sums_); }
  bool is_state_intact() const override { return total(count_state()) == total(sums_); }
  void set_state(std::string_view state) override {
    const std::span<float> parameters = model_->parameters();
    ensure(state.size() > parameters.size_bytes(), "a state is that of this model");
    std::memcpy(parameters.data(), state.data(), parameters.size_bytes());
    optimizer().set_state(state.substr(parameters.size_bytes()));
    sums_ = count_state();
  }

 private:
  static Checksum total(const StateChecksums& sums) {
    Checksum all = sums.parameters;
    all += sums.moments;
    return all;
  }
  StateChecksums count_state() const {
    StateChecksums sums;
    sums.parameters.add(std::as_const(*model_).parameters(), 0);
    if (optimizer_) sums.moments.add_moments(optimizer_->mean(), optimizer_->square(), 0);
    return sums;
  }
  Adam& optimizer() {
    if (!optimizer_) optimizer_.emplace(model_->parameters().size(), learning_rate_);
    return *optimizer_;
  }

  const std::unique_ptr<Network<float>> model_;
  const double learning_rate_;
  std::optional<Adam> optimizer_;  ///< set at the first update; a sharded optimizer is elsewhere
  StateChecksums sums_;            ///< running checksums; those of a sharded state are elsewhere
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(std::uint64_t seed, double learning_rate,
                                        const std::string& builtin) {
  return std::make_unique<CpuDevice>(builtin, seed, learning_rate);
}

}  // namespace orrery::live
