#include "live/training/device.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

/// A device after three updates.
std::unique_ptr<Device> trained() {
  auto device = make_cpu_device(1, 0.003);
  for (int step = 1; step <= 3; ++step) {
    for (std::size_t i = 0; i < device->gradient().size(); ++i) {
      device->gradient()[i] = static_cast<float>((i * 31 + 7) % 101) * 0.01F * float(step);
    }
    device->update(1, 1);
  }
  return device;
}

TEST(Device, ItsPartsTogetherAreAllOfItsState) {
  const auto device = trained();
  const std::size_t total = device->gradient().size();
  for (const std::uint32_t count : {1u, 3u}) {
    TrainingState whole;
    for (std::uint32_t index = 0; index < count; ++index) {
      const TrainingState part = device->part(part_of(total, index, count));
      EXPECT_EQ(part.optimizer_steps, 3u);
      whole.optimizer_steps = part.optimizer_steps;
      whole.parameters.insert(whole.parameters.end(), part.parameters.begin(),
                              part.parameters.end());
      whole.mean.insert(whole.mean.end(), part.mean.begin(), part.mean.end());
      whole.square.insert(whole.square.end(), part.square.begin(), part.square.end());
    }
    const auto other = make_cpu_device(2, 0.003);
    ASSERT_NE(other->state(), device->state());
    other->restore_state(whole);
    EXPECT_EQ(other->state(), device->state());
    EXPECT_EQ(other->parameters_sha256(), device->parameters_sha256());
  }
}

TEST(Device, RefusesTheStateOfAnotherModel) {
  const auto device = trained();
  TrainingState whole = device->part({0, device->gradient().size()});
  whole.square.pop_back();
  EXPECT_THROW(device->restore_state(whole), Error);
  EXPECT_THROW(device->part({0, device->gradient().size() + 1}), Error);
}

}  // namespace
}  // namespace orrery::live
