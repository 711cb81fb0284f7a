// Contender of the fabric benchmark: one way to sum vectors over processes. Each rank's process
// holds one of each, and calls them in the same order. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace orrery::live {

/// One way to sum vectors over processes.
class Contender {
 public:
  virtual ~Contender() = default;
  virtual void all_reduce(std::span<float> values) = 0;
};

/// Gloo's own all-reduce over TCP on loopback; `folder` is where its ranks find each other. Nothing
/// where this was built without Gloo.
std::unique_ptr<Contender> make_gloo(std::uint32_t rank, std::uint32_t ranks,
                                     const std::string& folder);

}  // namespace orrery::live
