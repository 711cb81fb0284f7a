#include "sim/estimates/prices/machine_costs.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "topologies/machine.hpp"

namespace orrery::estimates {
namespace {

/// Names of codecs may contain hyphens or underscores.
Codec codec_named(std::string name) {
  const auto plain = [](std::string text) {
    std::replace(text.begin(), text.end(), '-', '_');
    return text;
  };
  for (std::size_t i = 0; i < CodecSpeeds{}.size(); ++i) {
    const auto codec = static_cast<Codec>(i);
    if (plain(std::string(codec_name(codec))) == plain(name)) return codec;
  }
  throw Error(ErrorKind::internal, "a machine's codec has a known name: " + name);
}

}  // namespace

MachineCosts machine_costs(const MachineProfile& machine, std::uint32_t ranks) {
  MachineCosts costs;
  if (machine.links_size() == 0) return costs;
  costs.kernels = cost_profile(machine.kernels());
  costs.update = Seconds{machine.update()};
  costs.control = Seconds{links_among(machine, ranks).control()};
  if (machine.codecs_size() == 0) return costs;
  costs.codecs.emplace();
  for (std::size_t i = 0; i < costs.codecs->size(); ++i) {
    costs.codecs->at(i) = cpu_throughput(static_cast<Codec>(i));
  }
  for (const CodecRate& rate : machine.codecs()) {
    costs.codecs->at(static_cast<std::size_t>(codec_named(rate.codec()))) = {rate.encode(),
                                                                              rate.decode()};
  }
  return costs;
}

}  // namespace orrery::estimates
