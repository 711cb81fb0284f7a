#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "live/device.hpp"
#include "live/model.hpp"

namespace orrery::live {
namespace {

class CpuDevice : public Device {
 public:
  CpuDevice(const std::string& builtin, std::uint64_t seed, double learning_rate)
      : model_(make_network(builtin, Rng(seed).split("parameters"))),
        optimizer_(model_->parameters().size(), learning_rate) {}

  void zero_gradient() override { model_->zero_gradient(); }
  double accumulate(const Batch& batch) override { return model_->accumulate(batch); }
  GatherCount gathered() const override { return model_->gathered(); }
  std::span<float> gradient() override { return model_->gradient(); }
  std::span<const Tensor> tensors() const override { return model_->tensors(); }
  void update(float scale) override {
    optimizer_.update(model_->parameters(), model_->gradient(), scale);
  }
  std::string parameters_sha256() const override { return live::parameters_sha256(*model_); }
  std::string state() const override {
    const std::span<const float> parameters = std::as_const(*model_).parameters();
    std::string state(reinterpret_cast<const char*>(parameters.data()), parameters.size_bytes());
    optimizer_.append_state(state);
    return state;
  }
  void set_state(std::string_view state) override {
    const std::span<float> parameters = model_->parameters();
    ensure(state.size() > parameters.size_bytes(), "a state is that of this model");
    std::memcpy(parameters.data(), state.data(), parameters.size_bytes());
    optimizer_.set_state(state.substr(parameters.size_bytes()));
  }

 private:
  const std::unique_ptr<Network<float>> model_;
  Adam optimizer_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(std::uint64_t seed, double learning_rate,
                                        const std::string& builtin) {
  return std::make_unique<CpuDevice>(builtin, seed, learning_rate);
}

}  // namespace orrery::live
