// Training text of live mode, and the bytes of each micro-batch id. Immutable after loading;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.hpp"

namespace orrery::live {

/// Text as bytes.
class Text {
 public:
  /// Returns the text of a file, or of all regular files of a folder in order of their names
  /// (without symbolic links and subfolders); of a longer text, the first 4 MiB. Throws bad_input
  /// if a file cannot be read, the path is neither file nor folder, or the text is shorter than 1
  /// KiB.
  static Text load(const std::string& path);
  /// Constructs a text of these bytes, of any length.
  explicit Text(std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)) {}

  /// Returns all bytes.
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }
  /// Returns the entropy of single bytes in nats: the loss that a model without context can reach;
  /// 0 for an empty text.
  double unigram_entropy() const;
  /// Returns `count` sequences of `length` bytes, one after the other. They depend on the arguments
  /// alone: every rank computes the same micro-batch. Throws bad_input if `length` is above the
  /// text's. Positions are random and may overlap.
  std::vector<std::uint8_t> sample(std::uint64_t seed, Step step, std::uint64_t micro_batch,
                                   std::size_t count, std::size_t length) const;

 private:
  std::vector<std::uint8_t> bytes_;
};

}  // namespace orrery::live
