// Sum of a gradient bucket in codes, with error feedback: an exchange of parts and an all-gather,
// as live/training/gradient_exchange performs it for built-in models. Plain C++ without PyTorch,
// compiled into the user's program, which sends the codes. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "live/codec/codec.hpp"

namespace orrery::live {

/// Bucket of one member, from step to step. The values are divided into equal parts, one for each
/// member; zeros fill up the last one. Example: of 1,000 values and 3 members each member sums a
/// part of 334 values: it receives the codes of its part from the 2 others, and sends the code of
/// the sum to both. The calls of one exchange are encode_parts(), encode_sum(), decode_sums() and
/// commit_exchange(); an exchange without commit_exchange() changes nothing, so that it can be
/// repeated among other members. Values that codes have left out are added to the next exchange;
/// those of a lost member are lost with it.
class CodedBucket {
 public:
  /// Throws bad_input for a rule without a codec (objection_to()). PowerSGD treats each part as a
  /// matrix.
  CodedBucket(const CodecRule& rule, std::size_t count);

  const CodecRule& rule() const { return codec_->rule(); }
  std::size_t count() const { return count_; }

  /// Begins an exchange among `members` (at least two), of which `own` is the position of this one.
  /// Returns the codes of the parts of `values` in the order of the members, all of the same size;
  /// that of the own part is not filled. `values` must have count() values.
  std::vector<std::byte> encode_parts(std::span<const float> values,
                                      const std::vector<std::size_t>& members, std::size_t own);
  /// Returns the code of the sum of this member's part. `received`: codes of the part by all
  /// members in their order; the own one is not read. Throws bad_input for impossible codes.
  std::vector<std::byte> encode_sum(std::span<const std::byte> received);
  /// Decodes the sums of all parts, in the order of the members, into `values`. Throws bad_input
  /// for impossible codes.
  void decode_sums(std::span<const std::byte> gathered, std::span<float> values) const;
  /// Keeps the values that the codes of the newest exchange have left out, for the next one.
  void commit_exchange();
  /// Returns the bytes that this member has sent to others in the newest exchange.
  double sent_bytes() const;

 private:
  /// Values left out, by member of the exchange and of the sum.
  struct Memory {
    std::vector<std::size_t> members;
    std::size_t own = 0;
    std::vector<CodecState> to_member;
    CodecState of_sum;
  };

  std::size_t part_size() const;
  std::span<float> part_of(std::size_t position) {
    return std::span<float>(values_).subspan(position * part_size(), part_size());
  }
  /// Adds the values left out among other members to the values of this exchange.
  void add_left_out(const Memory& memory);

  const std::unique_ptr<const GradientCodec> codec_;
  const std::size_t count_;
  std::optional<Memory> committed_;
  Memory pending_;
  std::vector<float> values_;  ///< values of the newest exchange, filled up
};

}  // namespace orrery::live
