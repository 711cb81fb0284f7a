// The text that live mode trains on, and which bytes of it a micro-batch id stands for. Immutable
// after loading; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.hpp"

namespace orrery::live {

class Text {
 public:
  /// A file, or all regular files of a folder in order of their names (symbolic links skipped), up
  /// to 4 MiB. Throws bad_input if there is none or less than 1 KiB.
  static Text load(const std::string& path);
  explicit Text(std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)) {}

  const std::vector<std::uint8_t>& bytes() const { return bytes_; }
  /// Entropy of single bytes, nats: what a model that ignores the context can reach.
  double unigram_entropy() const;
  /// Sequences of `length` bytes, `count` of them, one after the other. They depend on nothing but
  /// the arguments: whichever rank computes a micro-batch computes the same.
  std::vector<std::uint8_t> sample(std::uint64_t seed, Step step, std::uint64_t micro_batch,
                                   std::size_t count, std::size_t length) const;

 private:
  std::vector<std::uint8_t> bytes_;
};

}  // namespace orrery::live
