#include "live/training/device.hpp"

#include <cstring>
#include <string>

#include "core/error.hpp"

namespace orrery::live {
namespace {

/// Offsets in a device's state().
struct Places {
  explicit Places(std::size_t bytes)
      : total((bytes - sizeof(std::uint64_t)) / (3 * sizeof(float))),
        updates(total * sizeof(float)),
        mean(updates + sizeof(std::uint64_t)),
        square(mean + total * sizeof(float)) {
    ensure(bytes == square + total * sizeof(float), "a state is three floats a parameter");
  }
  std::size_t total, updates, mean, square;
};

std::vector<float> floats(const std::string& state, std::size_t place, const Range& range) {
  std::vector<float> values(range.size());
  std::memcpy(values.data(), state.data() + place + range.begin * sizeof(float),
              values.size() * sizeof(float));
  return values;
}

}  // namespace

StateDamaged::StateDamaged()
    : Error(ErrorKind::environment,
            "expected the training state in memory as the last update left it, found another one: "
            "the memory of this machine is damaged, or a program has written to it; check the "
            "machine") {}

std::span<float> Device::parameters() {
  throw Error(ErrorKind::environment, "this device keeps its parameters to itself");
}

TrainingState Device::part(const Range& range) const {
  const std::string whole = state();
  const Places at(whole.size());
  ensure(range.end <= at.total, "a part is one of the whole");
  TrainingState out;
  std::memcpy(&out.optimizer_steps, whole.data() + at.updates, sizeof out.optimizer_steps);
  out.parameters = floats(whole, 0, range);
  out.mean = floats(whole, at.mean, range);
  out.square = floats(whole, at.square, range);
  return out;
}

void Device::restore_state(const TrainingState& whole) {
  std::string bytes;
  const auto append = [&](const std::vector<float>& values) {
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  };
  append(whole.parameters);
  bytes.append(reinterpret_cast<const char*>(&whole.optimizer_steps), sizeof(std::uint64_t));
  append(whole.mean);
  append(whole.square);
  set_state(bytes);
}

}  // namespace orrery::live
