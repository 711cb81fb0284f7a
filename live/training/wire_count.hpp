// What a run's gradients were on the wire: bytes as the ranks' sockets count them, and the codes
// they travelled in. Fed by the live backend; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "policies/compression/codec_uses.hpp"
#include "traces/report.pb.h"

namespace orrery::live {

class WireCount {
 public:
  explicit WireCount(const Model& model) : codes_(gradient_parts(model)) {}

  /// `bytes`: all that the process in this seat (its life counts the processes of a rank) has sent
  /// so far. What comes out of order changes nothing.
  void sent(std::uint32_t rank, std::uint32_t life, std::uint64_t bytes);
  /// A committed step: each of `ranks` ranks had a gradient in these codes.
  void exchanged(std::span<const CodecRule> rules, std::uint32_t ranks) {
    codes_.exchanged(rules, ranks);
  }
  void fill(Report& report) const;

 private:
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> sent_;  ///< by rank and life
  CodecUses codes_;
};

}  // namespace orrery::live
