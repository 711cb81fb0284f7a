#include "live/device.hpp"
#include "live/model.hpp"

namespace orrery::live {
namespace {

class CpuDevice : public Device {
 public:
  CpuDevice(std::uint64_t seed, double learning_rate)
      : model_(Rng(seed).split("parameters")),
        optimizer_(model_.parameters().size(), learning_rate) {}

  void zero_gradient() override { model_.zero_gradient(); }
  double accumulate(std::span<const std::uint8_t> sequence) override {
    return model_.accumulate(sequence);
  }
  std::span<float> gradient() override { return model_.gradient(); }
  void update(float scale) override {
    optimizer_.update(model_.parameters(), model_.gradient(), scale);
  }
  std::string parameters_sha256() const override {
    return live::parameters_sha256(model_.parameters());
  }

 private:
  LanguageModel<float> model_;
  Adam optimizer_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(std::uint64_t seed, double learning_rate) {
  return std::make_unique<CpuDevice>(seed, learning_rate);
}

}  // namespace orrery::live
